package engine

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strconv"
	"syscall"
)

// Command implements "bench engine": it runs a Server until a signal.
func Command(args []string, stdout, stderr io.Writer) error {
	c := Default()
	flags := flag.NewFlagSet("engine", flag.ContinueOnError)
	port := flags.Int("port", 8000, "`port` on 127.0.0.1")
	seed := flags.Uint64("seed", 1, "`seed` of the lengths of outputs that requests do not set (ignore_eos)")
	oracle := flags.Bool("oracle", false, "hold requests until they fit without a preemption")
	flags.IntVar(&c.Blocks, "blocks", c.Blocks, "`number` of blocks of the KV cache")
	flags.IntVar(&c.BlockSize, "block-size", c.BlockSize, "`tokens` of a block")
	flags.IntVar(&c.MaxModelLen, "max-model-len", c.MaxModelLen, "most `tokens` of a prompt and its output")
	flags.IntVar(&c.MaxSequences, "max-num-seqs", c.MaxSequences, "most `requests` that run at once")
	flags.IntVar(&c.MaxBatchedTokens, "max-num-batched-tokens", c.MaxBatchedTokens, "most `tokens` of a step")
	flags.DurationVar(&c.Base, "base", c.Base, "`time` of a step without tokens")
	flags.DurationVar(&c.PerPrefillToken, "per-prefill-token", c.PerPrefillToken, "`time` per token of a prompt")
	flags.DurationVar(&c.PerSequence, "per-sequence", c.PerSequence, "`time` per sequence that decodes")
	flags.SetOutput(stderr)
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	s, err := NewServer(c, *seed)
	if err != nil {
		return err
	}
	if *oracle {
		s.Oracle = TrueLengths
	}
	if err := s.Start(net.JoinHostPort("127.0.0.1", strconv.Itoa(*port))); err != nil {
		return err
	}
	defer s.Stop()
	fmt.Fprintf(stdout, "a model of vLLM on http://%s, %d blocks of %d tokens\n", s.Address(), c.Blocks, c.BlockSize)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	<-ctx.Done()
	return nil
}

package compare

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/queuegate/queuegate/bench/internal/sample"
)

// Exit codes of Main.
const (
	ExitSame      = 0
	ExitRegressed = 1
	ExitUsage     = 2 // wrong arguments, or a record that cannot be read
)

// Main is the command "compare [options] OLD NEW": OLD and NEW are records, or
// directories with a samples.jsonl. It writes the table, and complaints too, to
// stdout and returns the exit code.
func Main(args []string, stdout io.Writer) int {
	flags := flag.NewFlagSet("compare", flag.ContinueOnError)
	flags.SetOutput(stdout)
	flags.Usage = func() {
		fmt.Fprintln(stdout, "usage: compare [options] OLD NEW\n\nOLD and NEW are records of two runs, or directories with a "+
			sample.FileName+".\nExit code 1: a figure is worse, beyond the noise and the threshold.")
		flags.PrintDefaults()
	}
	percent := flags.Float64("threshold", DefaultThreshold*100, "tolerated change of a median, in `percent`")
	alpha := flags.Float64("alpha", DefaultAlpha, "`p-value` below which a change is more than noise")
	all := flags.Bool("all", false, "show also what stayed the same")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return ExitSame
	} else if err != nil {
		return ExitUsage
	}
	fail := func(err error) int {
		fmt.Fprintf(stdout, "compare: %v\n", err)
		return ExitUsage
	}
	o, err := OptionsOf(*percent, *alpha)
	if err != nil {
		return fail(err)
	}
	if flags.NArg() != 2 {
		return fail(fmt.Errorf("%d arguments, want the records of two runs", flags.NArg()))
	}
	old, err := read(flags.Arg(0))
	if err != nil {
		return fail(err)
	}
	new, err := read(flags.Arg(1))
	if err != nil {
		return fail(err)
	}
	r := Compare(old, new, o)
	if len(r.Changes) == 0 {
		return fail(errors.New("neither run holds a figure"))
	}
	if err := r.Render(stdout, *all); err != nil {
		return fail(err)
	}
	if r.Regressed() {
		return ExitRegressed
	}
	return ExitSame
}

// OptionsOf checks what a command line gave: a threshold in percent, above zero,
// and a p-value between zero and one.
func OptionsOf(thresholdPercent, alpha float64) (Options, error) {
	if !(thresholdPercent > 0) {
		return Options{}, fmt.Errorf("--threshold is %v, must be above 0 percent", thresholdPercent)
	}
	if !(alpha > 0 && alpha < 1) {
		return Options{}, fmt.Errorf("--alpha is %v, must be between 0 and 1", alpha)
	}
	return Options{Threshold: thresholdPercent / 100, Alpha: alpha}, nil
}

func read(name string) (*sample.Run, error) {
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		name = filepath.Join(name, sample.FileName)
	}
	return sample.ReadFile(name)
}

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
	ExitUsage     = 2 // wrong arguments, or an unreadable record
	ExitUndecided = 2 // no regression, but some changes need more rounds
)

// Flags are the options of a command that compares two runs. Out receives all output,
// including errors.
type Flags struct {
	*flag.FlagSet
	Out     io.Writer
	All     bool // also show figures that stayed the same
	Options Options
	percent float64
}

// NewFlags returns the options of a command. The unit of threshold is percent.
func NewFlags(name, usage string, threshold float64, out io.Writer) *Flags {
	f := &Flags{FlagSet: flag.NewFlagSet(name, flag.ContinueOnError), Out: out}
	f.SetOutput(out)
	f.Usage = func() {
		fmt.Fprintf(out, "usage: %s [options] %s\n", name, usage)
		f.PrintDefaults()
	}
	f.Float64Var(&f.percent, "threshold", threshold, "tolerated change of a median, in `percent`")
	f.Float64Var(&f.Options.Alpha, "alpha", DefaultAlpha, "`p-value` below which a change is more than noise")
	f.BoolVar(&f.All, "all", false, "show also what stayed the same")
	return f
}

// Read parses a command line. If the second result is true, the caller must exit, and the
// first result is the exit code. This is the case if the user asked for help, or if the
// command line is wrong.
func (f *Flags) Read(args []string) (code int, done bool) {
	if err := f.Parse(args); errors.Is(err, flag.ErrHelp) {
		return ExitSame, true
	} else if err != nil {
		return ExitUsage, true
	}
	f.Options.Threshold = f.percent / 100
	if !(f.percent > 0) {
		return f.Fail(fmt.Errorf("--threshold is %v, must be above 0 percent", f.percent)), true
	}
	if a := f.Options.Alpha; !(a > 0 && a < 1) {
		return f.Fail(fmt.Errorf("--alpha is %v, must be between 0 and 1", a)), true
	}
	return 0, false
}

// Fail prints err and returns ExitUsage.
func (f *Flags) Fail(err error) int {
	fmt.Fprintf(f.Out, "%s: %v\n", f.Name(), err)
	return ExitUsage
}

// Compare prints a comparison and returns the exit code.
func (f *Flags) Compare(old, new *sample.Run) int {
	r := Compare(old, new, f.Options)
	if len(r.Changes) == 0 {
		return f.Fail(errors.New("neither run holds a figure"))
	}
	fmt.Fprint(f.Out, r.text(f.All))
	if r.Regressed() {
		return ExitRegressed
	}
	if r.Undecided() {
		return ExitUndecided
	}
	return ExitSame
}

// Main implements "compare [options] OLD NEW" and returns the exit code. OLD and NEW are
// records, or directories with a samples.jsonl.
func Main(args []string, stdout io.Writer) int {
	f := NewFlags("compare", "OLD NEW\n\nOLD and NEW are records of two runs, or directories with a "+
		sample.FileName+".\nExit code 1: a figure is worse, beyond the noise and the threshold.\nExit code 2: figures changed beyond the threshold, and the runs have too few rounds to judge them.", DefaultThreshold*100, stdout)
	if code, done := f.Read(args); done {
		return code
	}
	if f.NArg() != 2 {
		return f.Fail(fmt.Errorf("%d arguments, want the records of two runs", f.NArg()))
	}
	var runs [2]*sample.Run
	for i, name := range f.Args() {
		if info, err := os.Stat(name); err == nil && info.IsDir() {
			name = filepath.Join(name, sample.FileName)
		}
		var err error
		if runs[i], err = sample.ReadFile(name); err != nil {
			return f.Fail(err)
		}
	}
	return f.Compare(runs[0], runs[1])
}

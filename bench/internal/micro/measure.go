package micro

import (
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"strings"

	"github.com/queuegate/queuegate/bench/internal/proc"
)

const module = "github.com/queuegate/queuegate"

// Packages are the packages with benchmarks of the request's path: admission,
// heads, counting, probe schedule.
var Packages = []string{
	module + "/pkg/gate",
	module + "/pkg/gate/wire",
	module + "/pkg/gate/wire/h2",
	module + "/pkg/metrics",
	module + "/pkg/probe",
}

// settings say what to measure and how often.
type settings struct {
	packages  []string
	pattern   string // of benchmarks
	benchtime string // as go test -benchtime; empty means its default
	rounds    int
}

// measure runs the benchmarks round by round, all packages in each round, so
// that a machine that becomes slower does so for all of them. It writes a line
// for each round to progress. With an error it returns what it had.
func measure(s settings, progress io.Writer) (rec Recording, err error) {
	head := fmt.Sprintf("go: %s\ncommit: %s\n", runtime.Version(), proc.Revision(".", "--untracked-files=no"))
	args := []string{"test", "-p=1", "-vet=off", "-run=^$", "-bench=" + s.pattern}
	if s.benchtime != "" {
		args = append(args, "-benchtime="+s.benchtime)
	}
	for round := range s.rounds {
		fmt.Fprintf(progress, "round %d of %d\n", round+1, s.rounds)
		out, err := exec.Command("go", append(args, s.packages...)...).CombinedOutput()
		if err != nil {
			return rec, fmt.Errorf("running the benchmarks of %s: %w\n%s", strings.Join(s.packages, ", "), err, out)
		}
		results, err := Parse(strings.NewReader(head+string(out)), "go test")
		if err != nil {
			return rec, err
		}
		rec = append(rec, results...)
	}
	return rec, nil
}

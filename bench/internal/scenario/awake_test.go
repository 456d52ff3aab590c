package scenario

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/queuegate/queuegate/bench/internal/awake"
	"github.com/queuegate/queuegate/bench/internal/child/childtest"
	"github.com/queuegate/queuegate/bench/internal/origin"
	"github.com/queuegate/queuegate/bench/internal/sample"
	"github.com/queuegate/queuegate/bench/internal/target"
)

// TestMain runs the tests, or the helper process that the command line names. If the
// environment variable refusedLine is set, the awake helper only prints the value of
// this variable. It does not keep the processors awake then.
func TestMain(m *testing.M) {
	childtest.Main(m, map[string]func(io.Reader, io.Writer) error{origin.Command: origin.Main, awake.Command: func(in io.Reader, out io.Writer) error {
		if line := os.Getenv(refusedLine); line != "" {
			_, err := fmt.Fprintln(out, line)
			return err
		}
		return awake.Main(in, out)
	}})
}

const refusedLine = "TEST_LINE_OF_REFUSAL"

// notes is a Recorder that keeps only notes.
type notes struct{ list []sample.Note }

func (n *notes) Figure(sample.Figure) error   { return nil }
func (n *notes) Latency(sample.Latency) error { return nil }
func (n *notes) Note(note sample.Note) error {
	n.list = append(n.list, note)
	return nil
}

func direct(t *testing.T, n *notes, s Scenario) *Run {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return &Run{ctx: ctx, scenario: &s, target: &target.Target{Name: target.Direct}, round: 1,
		options: &Options{Dir: t.TempDir()}, record: newRecord(n)}
}

func TestTheTargetsProcessesExcludeTheHelperThatKeepsProcessorsAwake(t *testing.T) {
	for _, wanted := range []bool{false, true} {
		st, err := direct(t, &notes{}, Scenario{Name: "x", Awake: wanted}).start(target.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer st.stop()
		if (st.awake != nil) != wanted {
			t.Fatalf("a scenario that is awake (%v) has the helper %v", wanted, st.awake)
		}
		if !wanted {
			continue
		}
		pids, err := st.instance.Processes()
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(st.helpers(), st.awake.PID()) || slices.Contains(pids, st.awake.PID()) {
			t.Errorf("helper %d; helpers are %v, processes of the target %v", st.awake.PID(), st.helpers(), pids)
		}
	}
}

func TestANoteReportsThatProcessorsCannotBeKeptAwake(t *testing.T) {
	t.Setenv(refusedLine, `{"refused":"no such policy"}`)
	n := &notes{}
	_, err := direct(t, n, Scenario{Name: "x", Awake: true}).start(target.Options{})
	if !errors.Is(err, errUntrusted) {
		t.Fatalf("got %v", err)
	}
	want := sample.Note{Scenario: "x", Target: target.Direct, Text: "no figures: the processors cannot be kept awake: no such policy"}
	if !slices.Equal(n.list, []sample.Note{want}) {
		t.Fatalf("notes are %v", n.list)
	}
}

func TestNoFiguresAreRecordedIfProcessorsWentIdle(t *testing.T) {
	allCPUs := time.Duration(runtime.NumCPU()) * time.Second
	for _, c := range []struct {
		awake bool
		busy  time.Duration
		dozed bool
	}{
		{true, allCPUs, false}, {true, allCPUs * 81 / 100, false}, {true, allCPUs * 79 / 100, true}, {false, 0, false},
	} {
		n := &notes{}
		got := direct(t, n, Scenario{Name: "x", Awake: c.awake}).dozed(c.busy, time.Second)
		if got != c.dozed || len(n.list) != map[bool]int{true: 1}[c.dozed] {
			t.Errorf("%+v: %v, notes %v", c, got, n.list)
		}
	}
}

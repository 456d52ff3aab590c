package lines

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/queuegate/queuegate/internal/testkit/leak"
)

// TestMain fails if a goroutine outlives its Writer.
func TestMain(m *testing.M) { leak.Main(m) }

// recorder records every write separately.
type recorder struct {
	mu     sync.Mutex
	writes []string
}

func (r *recorder) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writes = append(r.writes, string(b))
	return len(b), nil
}

// taken returns the writes since its last call.
func (r *recorder) taken() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	writes := r.writes
	r.writes = nil
	return writes
}

func closed(t *testing.T, w *Writer) {
	t.Helper()
	if err := w.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func send(w *Writer, format string, values ...any) { fmt.Fprintf(w, format+"\n", values...) }

func TestLinesThatArriveWithinLingerAreWrittenInOrderWithOneWrite(t *testing.T) {
	const linger = 5 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		var r recorder
		w := New(Config{Writer: &r, Linger: linger})
		defer closed(t, w)
		for _, want := range []string{"0\n1\n2\n", "0\n1\n2\n3\n"} {
			for i := range strings.Count(want, "\n") {
				send(w, "%d", i)
			}
			synctest.Wait()
			if r.taken() != nil {
				t.Error("the first line did not wait for the others")
			}
			<-time.After(linger)
			synctest.Wait()
			if got := r.taken(); len(got) != 1 || got[0] != want {
				t.Errorf("%q, want one write of %q", got, want)
			}
		}
	})
}

func TestWithoutLingerALineIsWrittenImmediately(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r recorder
		w := New(Config{Writer: &r})
		defer closed(t, w)
		for range 3 {
			send(w, "x")
			synctest.Wait()
			if got := r.taken(); len(got) != 1 || got[0] != "x\n" {
				t.Errorf("%q", got)
			}
		}
	})
}

func TestALongBurstIsSeveralWritesOfWholeLines(t *testing.T) {
	var r recorder
	w := New(Config{Writer: &r})
	const lines = 1000
	for i := range lines {
		send(w, "%0200d", i)
	}
	closed(t, w)
	next := 0
	writes := r.taken()
	for _, text := range writes {
		if len(text) > writeSize+201 || !strings.HasSuffix(text, "\n") {
			t.Errorf("a write of %d bytes", len(text))
		}
		for line := range strings.Lines(text) {
			if line != fmt.Sprintf("%0200d\n", next) {
				t.Fatalf("%q, want %d", line, next)
			}
			next++
		}
	}
	if next != lines || len(writes) < 2 {
		t.Errorf("%d lines in %d writes", next, len(writes))
	}
}

// stuck is a writer that hangs until it is released.
type stuck struct {
	recorder
	entered chan struct{}
	proceed chan struct{}
}

func (s *stuck) Write(b []byte) (int, error) {
	s.entered <- struct{}{}
	<-s.proceed
	return s.recorder.Write(b)
}

func newStuck() *stuck { return &stuck{entered: make(chan struct{}, 10), proceed: make(chan struct{})} }

func TestAHangingWriterLosesLinesAndNeverBlocks(t *testing.T) {
	for _, c := range []struct {
		what string
		cfg  Config
		kept int
	}{
		{"lines", Config{QueueLines: 10}, 10},
		{"bytes", Config{QueueBytes: 7 * (lineOverhead + 101)}, 7},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newStuck()
			c.cfg.Writer = s
			w := New(c.cfg)
			long := strings.Repeat("x", 100)
			send(w, "%s", long)
			<-s.entered
			for range 100 {
				send(w, "%s", long) // must not block: synctest would report a deadlock
			}
			if got, want := w.Dropped(), uint64(101-c.kept); got != want {
				t.Errorf("%s: %d dropped, want %d", c.what, got, want)
			}
			start := time.Now()
			if err := w.Sync(); err == nil || time.Since(start) != syncTimeout {
				t.Errorf("Sync while the writer hangs: %v after %v", err, time.Since(start))
			}
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			if err := w.Close(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("closing while the writer hangs: %v", err)
			}
			send(w, "%s", long)
			if got, want := w.Dropped(), uint64(102-c.kept); got != want {
				t.Errorf("after Close: %d dropped, want %d", got, want)
			}
			close(s.proceed)
			closed(t, w)
			if got := strings.Count(strings.Join(s.taken(), ""), "\n"); got != c.kept {
				t.Errorf("%s: %d lines written, want %d", c.what, got, c.kept)
			}
		})
	}
}

func TestNoCallerWaitsForAStuckWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStuck()
		w := New(Config{Writer: s})
		send(w, "x")
		<-s.entered
		start := time.Now()
		if err := w.Flush(context.Background()); !errors.Is(err, errStuck) || time.Since(start) != stuckAfter {
			t.Errorf("Flush: %v after %v", err, time.Since(start))
		}
		<-time.After(time.Minute)
		start = time.Now()
		if err := w.Sync(); !errors.Is(err, errStuck) {
			t.Errorf("Sync: %v", err)
		}
		if err := w.Close(context.Background()); !errors.Is(err, errStuck) || time.Since(start) != 0 {
			t.Errorf("Close: %v after %v", err, time.Since(start))
		}
		close(s.proceed)
		synctest.Wait()
		closed(t, w)
	})
}

func TestCloseWaitsForASlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStuck()
		w := New(Config{Writer: s})
		for range 10 {
			send(w, "%s", strings.Repeat("x", writeSize))
		}
		go func() {
			for range 10 {
				<-s.entered
				<-time.After(stuckAfter - time.Millisecond)
				s.proceed <- struct{}{}
			}
		}()
		closed(t, w)
		if n := len(s.taken()); n != 10 {
			t.Errorf("%d lines written", n)
		}
	})
}

func TestQueueSpaceIsReleasedWhenLinesAreWritten(t *testing.T) {
	var r recorder
	w := New(Config{Writer: &r, QueueLines: 3, QueueBytes: 2 * (lineOverhead + 2)})
	for range 5 {
		send(w, "x")
		send(w, "x")
		if err := w.Flush(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	closed(t, w)
	if got := strings.Join(r.taken(), ""); w.Dropped() != 0 || got != strings.Repeat("x\n", 10) {
		t.Errorf("%q and %d dropped", got, w.Dropped())
	}
}

func TestFlushReturnsWhenEarlierLinesAreWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStuck()
		w := New(Config{Writer: s, QueueLines: 1})
		if err := w.Flush(context.Background()); err != nil {
			t.Errorf("nothing to flush: %v", err)
		}
		send(w, "x")
		<-s.entered
		flushed := make(chan error)
		go func() { flushed <- w.Flush(context.Background()) }()
		synctest.Wait()
		select {
		case <-flushed:
			t.Error("returned before the line was written")
		default:
		}
		close(s.proceed)
		if err := <-flushed; err != nil || len(s.taken()) != 1 {
			t.Error(err)
		}
		closed(t, w)
		if err := w.Flush(context.Background()); err != nil {
			t.Errorf("after Close: %v", err)
		}
	})
}

func TestAClosedWriterCountsLaterLines(t *testing.T) {
	for _, used := range []bool{false, true} {
		var r recorder
		w := New(Config{Writer: &r})
		if used {
			send(w, "x")
		}
		closed(t, w)
		closed(t, w)
		r.taken()
		send(w, "late")
		if w.Dropped() != 1 || r.taken() != nil {
			t.Errorf("%d dropped", w.Dropped())
		}
	}
}

// failing is a writer that accepts n bytes of each write.
type failing struct {
	recorder
	n   int
	err error
}

func (f *failing) Write(b []byte) (int, error) {
	if f.n < 0 {
		return f.recorder.Write(b)
	}
	n, _ := f.recorder.Write(b[:f.n])
	return n, f.err
}

func TestAFailedWriteIsReportedAndCountedAndDoesNotJoinLines(t *testing.T) {
	f := &failing{n: 3, err: errors.New("disk full")}
	var faults []error
	w := New(Config{Writer: f, Failed: func(err error) { faults = append(faults, err) }})
	burst := func(wantDropped uint64, wantFaults int) {
		t.Helper()
		fmt.Fprint(w, "10\n11\n12\n")
		if err := w.Flush(context.Background()); err != nil {
			t.Fatal(err)
		}
		if w.Dropped() != wantDropped || len(faults) != wantFaults {
			t.Errorf("%d dropped, %v", w.Dropped(), faults)
		}
	}
	burst(2, 1) // the first line, "10\n", is written; the two other lines are dropped
	if !errors.Is(faults[0], f.err) {
		t.Error(faults)
	}
	f.n, f.err = 4, nil // a short write: "10\n1"
	burst(4, 2)
	f.n = 0
	burst(7, 3)
	f.n = -1
	burst(7, 3)
	closed(t, w)
	if got, want := strings.Join(f.taken(), ""), "10\n10\n1\n10\n11\n12\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// odd is a line that cannot be rendered.
type odd struct{ released *int }

func (odd) Size() int                       { return 1 }
func (odd) Append(b []byte) ([]byte, error) { return append(b, "half a li"...), errors.New("odd") }
func (o odd) Release()                      { *o.released++ }

func TestALineThatCannotBeRenderedIsCountedAndReportedOnce(t *testing.T) {
	var r recorder
	var faults []error
	w := New(Config{Writer: &r, Failed: func(err error) { faults = append(faults, err) }})
	released := 0
	for i := range 3 {
		send(w, "%d", i)
		w.Put(odd{&released})
	}
	closed(t, w)
	w.Put(odd{&released})
	if got := strings.Join(r.taken(), ""); got != "0\n1\n2\n" || w.Dropped() != 4 || len(faults) != 1 || released != 4 {
		t.Errorf("%q, %d dropped, %d released, %v", got, w.Dropped(), released, faults)
	}
}

func TestConcurrentLinesAreNeitherLostNorTorn(t *testing.T) {
	var r recorder
	w := New(Config{Writer: &r})
	const loops, each = 8, 200
	var all sync.WaitGroup
	for i := range loops {
		all.Go(func() {
			for j := range each {
				send(w, "%d/%d", i, j)
			}
		})
	}
	all.Wait()
	closed(t, w)
	seen := map[string]bool{}
	for line := range strings.Lines(strings.Join(r.taken(), "")) {
		seen[line] = true
	}
	if len(seen) != loops*each || w.Dropped() != 0 {
		t.Errorf("%d lines, %d dropped", len(seen), w.Dropped())
	}
}

// awake returns a Writer that acts as if its goroutine were running and awake. So the
// Writer does not start the goroutine, and all lines stay in the queue.
func awake() *Writer {
	w := New(Config{Writer: new(recorder), QueueLines: 1 << 20, QueueBytes: 1 << 30})
	w.started, w.asleep = true, false
	return w
}

func (w *Writer) forget() {
	for _, l := range w.pending {
		l.Release()
	}
	w.pending, w.lines, w.bytes = w.pending[:0], 0, 0
}

func TestPutDoesNotAllocate(t *testing.T) {
	w := awake()
	var l Line = new(line)
	if n := testing.AllocsPerRun(100, func() { w.Put(l); w.pending, w.lines = w.pending[:0], 0 }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkWrite(b *testing.B) {
	w := awake()
	text := []byte(strings.Repeat("x", 200) + "\n")
	b.ReportAllocs()
	for b.Loop() {
		_, _ = w.Write(text)
		w.forget()
	}
}

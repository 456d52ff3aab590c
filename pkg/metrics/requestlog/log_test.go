package requestlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// recorder keeps every write apart.
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

// taken returns the writes since it was last asked.
func (r *recorder) taken() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	writes := r.writes
	r.writes = nil
	return writes
}

func closed(t *testing.T, l *Log) {
	t.Helper()
	if err := l.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func numbered(i int) Head { return Head{Target: fmt.Append(nil, i)} }

func TestALogThatIsOffDoesNothing(t *testing.T) {
	var l *Log
	if l.Begin(testHead) != nil || l.Dropped() != 0 || l.Close(context.Background()) != nil {
		t.Error("a nil log did something")
	}
	if n := testing.AllocsPerRun(100, func() { l.Begin(testHead).End(testResult) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestABurstIsOneWriteInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r recorder
		l, err := New(Config{Template: "{{.Request.RequestURI}}", Writer: &r})
		if err != nil {
			t.Fatal(err)
		}
		defer closed(t, l)
		for _, want := range []string{"0\n1\n2\n", "0\n1\n2\n3\n"} {
			for i := range strings.Count(want, "\n") {
				l.Begin(numbered(i)).End(Result{})
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

func TestALongBurstIsSeveralWritesOfWholeLines(t *testing.T) {
	var r recorder
	l, err := New(Config{Template: "{{.Request.RequestURI}}", Writer: &r})
	if err != nil {
		t.Fatal(err)
	}
	const lines = 1000
	for i := range lines {
		l.Begin(Head{Target: fmt.Appendf(nil, "%0200d", i)}).End(Result{})
	}
	closed(t, l)
	next := 0
	writes := r.taken()
	for _, w := range writes {
		if len(w) > writeSize+201 || !strings.HasSuffix(w, "\n") {
			t.Errorf("a write of %d bytes", len(w))
		}
		for line := range strings.Lines(w) {
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

// stuck is a writer that hangs until it is told to go on.
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

func TestAHangingWriterCostsLinesAndNeverBlocks(t *testing.T) {
	for _, c := range []struct {
		what string
		cfg  Config
		kept int
	}{
		{"lines", Config{QueueLines: 10}, 10},
		{"bytes", Config{QueueBytes: 7 * (entryOverhead + 100)}, 7},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &stuck{entered: make(chan struct{}, 10), proceed: make(chan struct{})}
			c.cfg.Template, c.cfg.Writer = "{{.Request.RequestURI}}", s
			l, err := New(c.cfg)
			if err != nil {
				t.Fatal(err)
			}
			send := func() { l.Begin(Head{Target: bytes.Repeat([]byte{'x'}, 100)}).End(Result{}) }
			send()
			<-s.entered
			for range 100 {
				send() // blocking here would be a deadlock, which the bubble reports
			}
			if got, want := l.Dropped(), uint64(101-c.kept); got != want {
				t.Errorf("%s: %d dropped, want %d", c.what, got, want)
			}
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			if err := l.Close(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("closing while the writer hangs: %v", err)
			}
			send()
			if got, want := l.Dropped(), uint64(102-c.kept); got != want {
				t.Errorf("after Close: %d dropped, want %d", got, want)
			}
			close(s.proceed)
			closed(t, l)
			if got := strings.Count(strings.Join(s.taken(), ""), "\n"); got != c.kept {
				t.Errorf("%s: %d lines written, want %d", c.what, got, c.kept)
			}
		})
	}
}

func TestRoomIsGivenBackWhenLinesAreWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r recorder
		l, err := New(Config{Template: "x", Writer: &r, QueueLines: 2, QueueBytes: 2 * entryOverhead})
		if err != nil {
			t.Fatal(err)
		}
		for range 5 {
			l.Begin(Head{}).End(Result{})
			l.Begin(Head{}).End(Result{})
			<-time.After(linger)
			synctest.Wait()
		}
		closed(t, l)
		if got := strings.Join(r.taken(), ""); l.Dropped() != 0 || got != strings.Repeat("x\n", 10) {
			t.Errorf("%q and %d dropped", got, l.Dropped())
		}
	})
}

func TestALogThatHasEndedCountsWhatStillComes(t *testing.T) {
	var r recorder
	l, err := New(Config{Writer: &r})
	if err != nil {
		t.Fatal(err)
	}
	late := l.Begin(testHead)
	closed(t, l)
	closed(t, l)
	late.End(testResult)
	l.Begin(testHead).End(testResult)
	if l.Dropped() != 2 || r.taken() != nil {
		t.Errorf("%d dropped", l.Dropped())
	}
}

func TestAnEntryKeepsNothingOfTheRequestBefore(t *testing.T) {
	l := &Log{}
	if err := l.setTemplate(Preset); err != nil {
		t.Fatal(err)
	}
	e := newEntry(l)
	l.entries.New = func() any { return e } // released or not, this is the one
	l.Begin(testHead)
	e.result = testResult
	l.release(e)
	l.Begin(Head{})
	const want = `{"timestamp": "0001-01-01T00:00:00.000000Z", "httpRequest": {"requestMethod": "", "requestUrl": "", "requestSize": "0", ` +
		`"status": 0, "responseSize": "0", "userAgent": "", "remoteIp": "", "serverIp": "", "referer": "", "latency": "0s", "protocol": ""}, ` +
		`"host": "", "outcome": "", "queue_ms": 0, "upstream_ms": 0, "total_ms": 0, "request_bytes": 0, "response_bytes": 0, "traceId": ""}`
	if got, err := l.render.appendLine(nil, e, &RevisionInfo{}); string(got) != want || err != nil {
		t.Errorf("%s %v", got, err)
	}
}

// failing takes n bytes of each write.
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

func TestAFailedWriteIsReportedCountedAndNeverJoinsLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &failing{n: 3, err: errors.New("disk full")}
		var faults []error
		l, err := New(Config{Template: "{{.Request.RequestURI}}", Writer: f, Failed: func(err error) { faults = append(faults, err) }})
		if err != nil {
			t.Fatal(err)
		}
		send := func() {
			for i := 10; i < 13; i++ {
				l.Begin(numbered(i)).End(Result{})
			}
			<-time.After(linger)
			synctest.Wait()
		}
		send() // "10\n" gets through
		if l.Dropped() != 2 || len(faults) != 1 || !errors.Is(faults[0], f.err) {
			t.Errorf("%d dropped, %v", l.Dropped(), faults)
		}
		f.n, f.err = 4, nil // a short write: "10\n1"
		send()
		if l.Dropped() != 4 || len(faults) != 2 {
			t.Errorf("%d dropped, %v", l.Dropped(), faults)
		}
		f.n = -1
		send()
		closed(t, l)
		if got, want := strings.Join(f.taken(), ""), "10\n10\n1\n10\n11\n12\n"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	})
}

func TestSeveralLoopsLoseAndTearNothing(t *testing.T) {
	var r recorder
	l, err := New(Config{Template: Preset, Writer: &r})
	if err != nil {
		t.Fatal(err)
	}
	const loops, each = 8, 200
	var all sync.WaitGroup
	for i := range loops {
		all.Go(func() {
			for j := range each {
				head := testHead
				head.Target = fmt.Appendf(nil, "/%d/%d", i, j)
				l.Begin(head).End(testResult)
			}
		})
	}
	all.Wait()
	closed(t, l)
	seen := map[any]int{}
	for line := range strings.Lines(strings.Join(r.taken(), "")) {
		seen[member(t, line, "httpRequest", "requestUrl")]++
	}
	if len(seen) != loops*each || l.Dropped() != 0 {
		t.Errorf("%d lines, %d dropped", len(seen), l.Dropped())
	}
}

func TestTheRequestPathDoesNotAllocate(t *testing.T) {
	l := &Log{queueLines: 1 << 20, queueBytes: 1 << 30, wake: make(chan struct{}, 1)}
	if err := l.setTemplate(""); err != nil {
		t.Fatal(err)
	}
	l.entries.New = func() any { return newEntry(l) }
	head := testHead
	head.Fields = rawFields{[]byte("user-agent"), []byte("curl/8")}
	one := func() {
		l.Begin(head).End(testResult)
		l.release(l.pending[0])
		l.pending = l.pending[:0]
		l.lines, l.bytes = 0, 0
	}
	if n := testing.AllocsPerRun(100, one); n != 0 && !raceDetector {
		t.Errorf("%v allocations", n)
	}
}

type rawFields [2][]byte

func (f rawFields) Each(yield func(name, value []byte) bool) { yield(f[0], f[1]) }

// What a request costs where it is served. The entry is taken back at once, as
// if the log's goroutine had just written it.
func BenchmarkBeginEnd(b *testing.B) {
	l := &Log{queueLines: 1 << 20, queueBytes: 1 << 30, wake: make(chan struct{}, 1)}
	if err := l.setTemplate(""); err != nil {
		b.Fatal(err)
	}
	l.entries.New = func() any { return newEntry(l) }
	head := testHead
	head.Fields = rawFields{[]byte("user-agent"), []byte("curl/8")}
	b.ReportAllocs()
	for b.Loop() {
		l.Begin(head).End(testResult)
		l.release(l.pending[0])
		l.pending = l.pending[:0]
		l.lines, l.bytes = 0, 0
	}
}

// Everything, the goroutine's part too, with never more lines than it can take.
func BenchmarkBeginEndWrite(b *testing.B) {
	for _, text := range []string{"", Preset, "{{.Request.Method}} {{.Request.RequestURI}} {{.Response.Code}}"} {
		b.Run(fmt.Sprintf("template=%.8s", text), func(b *testing.B) {
			l, err := New(Config{Template: text, Writer: discard{}, QueueLines: 1 << 20, QueueBytes: 1 << 30})
			if err != nil {
				b.Fatal(err)
			}
			head := testHead
			head.Fields = rawFields{[]byte("user-agent"), []byte("curl/8")}
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				l.Begin(head).End(testResult)
				if n++; n%4096 == 0 {
					for waiting := 1; waiting > 0; runtime.Gosched() {
						l.mu.Lock()
						waiting = l.lines
						l.mu.Unlock()
					}
				}
			}
			_ = l.Close(context.Background())
			if l.Dropped() > 0 {
				b.Errorf("%d dropped", l.Dropped())
			}
		})
	}
}

func BenchmarkRender(b *testing.B) {
	for _, text := range []string{"", Preset, strings.Replace(knativeDefaults[1], "httpR", "r", 1)} {
		b.Run(fmt.Sprintf("template=%.8s", text), func(b *testing.B) {
			l := new(Log)
			if err := l.setTemplate(text); err != nil {
				b.Fatal(err)
			}
			l.entries.New = func() any { return newEntry(l) }
			e := l.Begin(testHead)
			e.result = testResult
			var line []byte
			b.ReportAllocs()
			for b.Loop() {
				line, _ = l.render.appendLine(line[:0], e, &testRevision)
			}
		})
	}
}

type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }

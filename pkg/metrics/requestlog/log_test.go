package requestlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/queuegate/queuegate/pkg/gate"
)

func closed(t *testing.T, l *Log) {
	t.Helper()
	if err := l.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func numbered(i int) *gate.Record { return &gate.Record{Target: fmt.Append(nil, i)} }

func TestADisabledLogDoesNothing(t *testing.T) {
	var l *Log
	if l.Begin(&testHead) != nil || l.Dropped() != 0 || l.Close(context.Background()) != nil {
		t.Error("a nil log did something")
	}
	if n := testing.AllocsPerRun(100, func() { l.Begin(&testHead).End(testResult) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

type writes chan string

func (w writes) Write(b []byte) (int, error) {
	w <- string(b)
	return len(b), nil
}

func TestLinesOfABurstAreOneWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := make(writes, 10)
		l, err := New(Config{Template: "{{.Request.RequestURI}}", Writer: out})
		if err != nil {
			t.Fatal(err)
		}
		defer closed(t, l)
		for i := range 3 {
			l.Begin(numbered(i)).End(Result{})
		}
		synctest.Wait()
		if len(out) > 0 {
			t.Error("the first line did not wait for the others")
		}
		if got := <-out; got != "0\n1\n2\n" {
			t.Errorf("%q", got)
		}
	})
}

func TestAClosedLogCountsLaterLines(t *testing.T) {
	var out bytes.Buffer
	l, err := New(Config{Writer: &out})
	if err != nil {
		t.Fatal(err)
	}
	late := l.Begin(&testHead)
	closed(t, l)
	late.End(testResult)
	if l.Dropped() != 1 || out.Len() > 0 {
		t.Errorf("%d dropped", l.Dropped())
	}
}

// stuck is a writer that hangs until it may proceed.
type stuck struct{ entered, proceed chan struct{} }

func (s stuck) Write(b []byte) (int, error) {
	s.entered <- struct{}{}
	<-s.proceed
	return len(b), nil
}

func TestLinesBeyondQueueBytesAreDroppedWhileTheLogWriterHangs(t *testing.T) {
	s := stuck{make(chan struct{}, 10), make(chan struct{})}
	l, err := New(Config{Writer: s, QueueBytes: 7 * (entryOverhead + 100)})
	if err != nil {
		t.Fatal(err)
	}
	send := func() { l.Begin(&gate.Record{Target: bytes.Repeat([]byte{'x'}, 100)}).End(Result{}) }
	send()
	<-s.entered
	for range 100 {
		send()
	}
	if got := l.Dropped(); got != 94 {
		t.Errorf("%d dropped, want 94", got)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := l.Close(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("closing while the writer hangs: %v", err)
	}
	close(s.proceed)
	closed(t, l)
}

func TestAnEntryContainsNothingOfThePreviousRequest(t *testing.T) {
	l := &Log{}
	if err := l.SetTemplate(Preset); err != nil {
		t.Fatal(err)
	}
	e := newEntry(l)
	// The pool may drop the released entry. Even then, Begin must return the same entry.
	l.entries.New = func() any { return e }
	l.Begin(&testHead)
	e.result = testResult
	l.release(e)
	l.Begin(&gate.Record{})
	const want = `{"timestamp": "0001-01-01T00:00:00.000000Z", "httpRequest": {"requestMethod": "", "requestUrl": "", "requestSize": "0", ` +
		`"status": 0, "responseSize": "0", "userAgent": "", "remoteIp": "", "serverIp": "", "referer": "", "latency": "0s", "protocol": ""}, ` +
		`"host": "", "outcome": "", "queue_ms": 0, "upstream_ms": 0, "total_ms": 0, "request_bytes": 0, "response_bytes": 0, "traceId": ""}`
	if got, err := l.format.Load().render.appendLine(nil, e, &RevisionInfo{}); string(got) != want || err != nil {
		t.Errorf("%s %v", got, err)
	}
}

func TestLinesOfSeveralLoopsAreNeitherLostNorTorn(t *testing.T) {
	var out bytes.Buffer
	l, err := New(Config{Template: Preset, Writer: &out})
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
				l.Begin(&head).End(testResult)
			}
		})
	}
	all.Wait()
	closed(t, l)
	seen := map[any]int{}
	for line := range strings.Lines(out.String()) {
		seen[member(t, line, "httpRequest", "requestUrl")]++
	}
	if len(seen) != loops*each || l.Dropped() != 0 {
		t.Errorf("%d lines, %d dropped", len(seen), l.Dropped())
	}
}

func TestBeginDoesNotAllocate(t *testing.T) {
	l := new(Log)
	if err := l.SetTemplate(""); err != nil {
		t.Fatal(err)
	}
	l.entries.New = func() any { return newEntry(l) }
	head := testHead
	head.Fields = rawFields{[]byte("user-agent"), []byte("curl/8")}
	if n := testing.AllocsPerRun(100, func() { l.release(l.Begin(&head)) }); n != 0 && !raceDetector {
		t.Errorf("%v allocations", n)
	}
}

type rawFields [2][]byte

func (f rawFields) Each(yield func(name, value []byte) bool) { yield(f[0], f[1]) }

// BenchmarkBegin measures the cost on the goroutine of a request, without the queue.
func BenchmarkBegin(b *testing.B) {
	for _, text := range []string{"", "{{.Request.Method}}"} {
		b.Run(fmt.Sprintf("template=%.8s", text), func(b *testing.B) {
			l := new(Log)
			if err := l.SetTemplate(text); err != nil {
				b.Fatal(err)
			}
			l.entries.New = func() any { return newEntry(l) }
			head := testHead
			head.Fields = rawFields{[]byte("user-agent"), []byte("curl/8")}
			b.ReportAllocs()
			for b.Loop() {
				l.release(l.Begin(&head))
			}
		})
	}
}

// BenchmarkBeginEndWrite measures the total cost, including the writing goroutine.
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
				l.Begin(&head).End(testResult)
				if n++; n%4096 == 0 {
					if err := l.lines.Flush(context.Background()); err != nil {
						b.Fatal(err)
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
			if err := l.SetTemplate(text); err != nil {
				b.Fatal(err)
			}
			l.entries.New = func() any { return newEntry(l) }
			e := l.Begin(&testHead)
			e.result = testResult
			var line []byte
			b.ReportAllocs()
			for b.Loop() {
				line, _ = l.format.Load().render.appendLine(line[:0], e, &testRevision)
			}
		})
	}
}

type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }

func TestALineUsesTheTemplateInForceWhenItsRequestBegan(t *testing.T) {
	var out bytes.Buffer
	l, err := New(Config{Template: "before {{.Request.Method}} {{.Request.Header.Get \"X-Tenant\"}}", Writer: &out})
	if err != nil {
		t.Fatal(err)
	}
	first := l.Begin(&testHead)
	if err := l.SetTemplate("after {{.Request.Method}}"); err != nil {
		t.Fatal(err)
	}
	if err := l.SetTemplate("{{"); err == nil {
		t.Error("an invalid template is accepted")
	}
	second := l.Begin(&testHead)
	first.End(testResult)
	second.End(testResult)
	closed(t, l)
	if got, want := out.String(), "before POST \nafter POST\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

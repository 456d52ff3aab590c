package http2

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
)

// occupied is a container whose answers wait for release.
func occupied(t *testing.T) (c *container, arrived chan *http.Request, release chan struct{}) {
	arrived, release = make(chan *http.Request, 100), make(chan struct{})
	c = startContainer(t, bothProtocols, func(w http.ResponseWriter, r *http.Request) {
		arrived <- r
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	return c, arrived, release
}

// start sends a request and does not wait for its answer.
func (r *rig) start(method, target string, fields ...string) chan *http.Response {
	answers := make(chan *http.Response, 1)
	req := r.request(method, target, nil, fields...)
	go func() {
		res, err := r.client.Do(req)
		if err != nil {
			close(answers)
			return
		}
		_ = res.Body.Close()
		answers <- res
	}()
	return answers
}

// leaver sends a request; what it returns resets the stream and waits for that.
func (r *rig) leaver(target string) (leave func()) {
	ctx, cancel := context.WithCancel(context.Background())
	req := r.request("GET", target, nil).WithContext(ctx)
	left := make(chan struct{})
	go func() {
		defer close(left)
		if res, err := r.client.Do(req); err == nil {
			r.t.Errorf("answered: %v", res.Status)
			_ = res.Body.Close()
		}
	}()
	return func() {
		cancel()
		<-left
	}
}

func TestALimitQueuesAndRefuses(t *testing.T) {
	up, arrived, release := occupied(t)
	r := newRig(t, up, func(g *gate.Config, _ *Config) { g.ConcurrencyLimit, g.QueueCapacity = 1, 1 })
	first := r.start("GET", "/first")
	receive(t, "the first request at the container", arrived)
	second := r.start("GET", "/second")
	until(t, "one in the queue", func() bool { return r.gate.Admission.QueueDepth() == 1 })

	if res, body := r.do("GET", "/", ""); res.StatusCode != 503 || body != "pending request queue full\n" ||
		res.Header.Get("Retry-After") != "1" || res.Header.Get("K-Gate-Outcome") != "queue-full" {
		t.Errorf("%d %v %q", res.StatusCode, res.Header, body)
	}
	res, _ := r.call()
	wantStatus(t, res, "8", "pending request queue full", "queue-full")

	close(release)
	if res := receive(t, "the first answer", first); res == nil || res.StatusCode != 200 {
		t.Errorf("%v", res)
	}
	if res := receive(t, "the second answer", second); res == nil || res.StatusCode != 200 {
		t.Errorf("%v", res)
	}
	until(t, "nothing in flight", func() bool { return r.gate.Admission.InFlight() == 0 && r.gate.Drain.Requests() == 0 })
}

func TestAQueuedClientThatLeavesFreesItsPlace(t *testing.T) {
	up, arrived, release := occupied(t)
	defer close(release)
	r := newRig(t, up, func(g *gate.Config, _ *Config) { g.ConcurrencyLimit = 1 })
	r.start("GET", "/first")
	receive(t, "the first request at the container", arrived)

	leave := r.leaver("/second")
	until(t, "one in the queue", func() bool { return r.gate.Admission.QueueDepth() == 1 })
	leave()
	until(t, "an empty queue", func() bool { return r.gate.Admission.QueueDepth() == 0 })
}

func TestWaitingInTheQueueEnds(t *testing.T) {
	for _, c := range []struct {
		name    string
		set     func(*gate.Config)
		status  int
		code    string
		message string
		outcome string
	}{
		{"by its own bound", func(g *gate.Config) { g.QueueMaxWait = 20 * time.Millisecond }, 503, "8", "queue wait expired", "queue-wait-expired"},
		{"by the response start clock", func(g *gate.Config) { g.ResponseStartTimeout = 20 * time.Millisecond }, 504, "4", "request timeout", "response-start-timeout"},
	} {
		t.Run(c.name, func(t *testing.T) {
			up, arrived, release := occupied(t)
			defer close(release)
			r := newRig(t, up, func(g *gate.Config, _ *Config) { g.ConcurrencyLimit = 1; c.set(g) })
			if !r.gate.Admission.TryBegin() { // nobody ends this one
				t.Fatal("no slot")
			}
			if res, _ := r.do("GET", "/", ""); res.StatusCode != c.status || res.Header.Get("K-Gate-Outcome") != c.outcome {
				t.Errorf("%d %v", res.StatusCode, res.Header)
			}
			res, _ := r.call()
			wantStatus(t, res, c.code, c.message, c.outcome)
			if len(arrived) > 0 {
				t.Error("a request reached the container")
			}
		})
	}
}

// shortClock is one that runs out in a test. A request has to reach its
// container, and an answer to begin, before it does.
const shortClock = 500 * time.Millisecond

func TestClocksEndAnAnswerThatHasNotBegun(t *testing.T) {
	t.Parallel()
	for outcome, set := range map[string]func(*gate.Config){
		"request-timeout":        func(g *gate.Config) { g.RequestTimeout = shortClock },
		"response-start-timeout": func(g *gate.Config) { g.ResponseStartTimeout = shortClock },
		"idle-timeout":           func(g *gate.Config) { g.IdleTimeout = shortClock },
	} {
		t.Run(outcome, func(t *testing.T) {
			t.Parallel()
			up, arrived, release := occupied(t)
			r := newRig(t, up, func(g *gate.Config, _ *Config) { set(g) })
			if res, body := r.do("GET", "/", ""); res.StatusCode != 504 || body != "request timeout" || res.Header.Get("K-Gate-Outcome") != outcome {
				t.Errorf("%d %v %q, want %s", res.StatusCode, res.Header, body, outcome)
			}
			res, _ := r.call()
			wantStatus(t, res, "4", "request timeout", outcome)
			for range 2 {
				select {
				case <-receive(t, "a request at the container", arrived).Context().Done():
				case <-time.After(patience):
					t.Error("the container was not told")
				}
			}
			close(release)
		})
	}
}

// begins is a container that begins an answer and goes on when it may.
func begins(t *testing.T, goOn func(http.ResponseWriter, *http.Request)) *container {
	return startContainer(t, bothProtocols, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
		_, _ = w.Write([]byte("begin"))
		_ = http.NewResponseController(w).Flush()
		goOn(w, r)
	})
}

func TestABreakAfterTheHeadIsDetectable(t *testing.T) {
	t.Parallel()
	hang := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	reset := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	for _, c := range []struct {
		name    string
		set     func(*gate.Config)
		goOn    func(http.ResponseWriter, *http.Request)
		code    string
		outcome string
	}{
		{"request clock", func(g *gate.Config) { g.RequestTimeout = shortClock }, hang, "4", "request-timeout"},
		{"idle clock", func(g *gate.Config) { g.IdleTimeout = shortClock }, hang, "4", "idle-timeout"},
		{"reset by the container", func(*gate.Config) {}, reset, "13", "upstream-broke-off"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, begins(t, c.goOn), func(g *gate.Config, _ *Config) { c.set(g) })
			res, err := r.client.Do(r.request("GET", "/", nil))
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(res.Body)
			if string(body) != "begin" || err == nil || !strings.Contains(err.Error(), "INTERNAL_ERROR") {
				t.Errorf("%q, %v: want a reset", body, err)
			}
			res, rest := r.call()
			if rest != "begin" || res.Trailer.Get("Grpc-Status") != c.code || res.Trailer.Get("K-Gate-Outcome") != c.outcome {
				t.Errorf("%q, trailers %v, want status %s, outcome %s", rest, res.Trailer, c.code, c.outcome)
			}
			until(t, "nothing in flight", func() bool { return r.gate.Admission.InFlight() == 0 })

			out, in := io.Pipe() // and while the client may still send
			defer in.Close()
			res, err = r.client.Do(r.request("POST", "/", out, "Content-Type", "application/grpc"))
			if err != nil {
				t.Fatal(err)
			}
			body, err = io.ReadAll(res.Body)
			if string(body) != "begin" || err != nil || res.Trailer.Get("Grpc-Status") != c.code {
				t.Errorf("%q, %v, trailers %v", body, err, res.Trailer)
			}
		})
	}
}

func TestAClockEndsAClientThatDoesNotRead(t *testing.T) {
	t.Parallel()
	gone := make(chan struct{})
	up := startContainer(t, bothProtocols, func(w http.ResponseWriter, r *http.Request) {
		defer close(gone)
		for block := make([]byte, 64<<10); ; {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	})
	r := newRig(t, up, func(g *gate.Config, h *Config) { g.IdleTimeout = shortClock; h.Protocol = H2C })
	r.client.Transport.(*http.Transport).HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerStream: 64 << 10}
	res, err := r.client.Do(r.request("GET", "/", nil))
	if err != nil {
		t.Fatal(err)
	}
	receive(t, "the end of the container's answer", gone)
	until(t, "nothing in flight", func() bool { return r.gate.Admission.InFlight() == 0 })
	if _, err := io.Copy(io.Discard, res.Body); err == nil {
		t.Error("the answer ended as if it were whole")
	}
	_ = res.Body.Close()
}

func TestFailuresOfTheContainerBeforeAnAnswer(t *testing.T) {
	for _, c := range []struct {
		name    string
		speaks  speaks
		outcome string
		body    string
	}{
		{"reset stream", bothProtocols, "upstream-reset", "upstream reset the connection"},
		{"closed connection", onlyHTTP1, "upstream-closed", "upstream closed the connection"},
	} {
		t.Run(c.name, func(t *testing.T) {
			up := startContainer(t, c.speaks, func(w http.ResponseWriter, r *http.Request) {
				if r.Method != "PRI" {
					panic(http.ErrAbortHandler)
				}
			})
			r := newRig(t, up)
			res, body := r.do("POST", "/", "x")
			if res.StatusCode != 502 || body != c.body+"\n" || res.Header.Get("K-Gate-Outcome") != c.outcome {
				t.Errorf("%d %v %q", res.StatusCode, res.Header, body)
			}
			res, _ = r.call()
			wantStatus(t, res, "13", c.body, c.outcome)
		})
	}
}

func TestAnAnswerThatIsNotHTTP(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 1000))
			_, _ = c.Write([]byte("good day\r\n\r\n"))
			_ = c.Close()
		}
	}()
	up := &container{t: t, addr: ln.Addr().(*net.TCPAddr).AddrPort()}
	res, body := newRig(t, up).do("GET", "/", "")
	if res.StatusCode != 502 || body != "malformed answer from upstream\n" || res.Header.Get("K-Gate-Outcome") != "upstream-malformed" {
		t.Errorf("%d %v %q", res.StatusCode, res.Header, body)
	}
}

func TestAClientThatLeavesEndsTheContainersWork(t *testing.T) {
	for _, s := range []speaks{bothProtocols, onlyHTTP1} {
		arrived, ended := make(chan struct{}, 1), make(chan struct{}, 1)
		up := startContainer(t, s, func(_ http.ResponseWriter, r *http.Request) {
			if r.Method != "PRI" {
				arrived <- struct{}{}
				<-r.Context().Done()
				ended <- struct{}{}
			}
		})
		r := newRig(t, up)
		leave := r.leaver("/")
		receive(t, "the request", arrived)
		leave()
		receive(t, "its cancellation", ended)
		until(t, "nothing in flight", func() bool { return r.gate.Admission.InFlight() == 0 && r.gate.Drain.Requests() == 0 })
	}
}

func TestAHardLimitHoldsTheSlotOfAClientThatLeft(t *testing.T) {
	arrived, release := make(chan struct{}, 1), make(chan struct{})
	up := startContainer(t, bothProtocols, func(_ http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		select {
		case <-release:
		case <-r.Context().Done():
			t.Error("the container's work was cancelled")
		}
	})
	r := newRig(t, up, func(g *gate.Config, _ *Config) { g.ConcurrencyLimit, g.HardConcurrency = 1, true })
	leave := r.leaver("/")
	receive(t, "the request", arrived)
	leave()

	second := r.start("GET", "/")
	until(t, "one in the queue", func() bool { return r.gate.Admission.QueueDepth() == 1 })
	close(release)
	if res := receive(t, "the second answer", second); res == nil || res.StatusCode != 200 {
		t.Errorf("%v", res)
	}
}

package http2

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/queuegate/queuegate/pkg/gate/wire/orca"
)

func withLoadStream(o *options) { o.gate.LoadReportStream, o.gate.ConcurrencyLimit = true, 4 }

func reportsCall() []string {
	return request("POST", loadStreamPath, "content-type", "application/grpc", "te", "trailers")
}

// everyHour is an OrcaLoadReportRequest with an interval of 3,600 s.
const everyHour = "\x00\x00\x00\x00\x05\x0a\x03\x08\x90\x1c"

// openLoadStreams returns the number of open load report streams.
func (r *rig) openLoadStreams() (n int) {
	r.on(func() { n = len(r.part.loadStreams) })
	return n
}

func TestALoadReportIsSentAsSoonAsTheRequestIsComplete(t *testing.T) {
	r := newRig(t, serveH2C(t, func(http.ResponseWriter, *http.Request) { t.Error("the container gets the call") }), withLoadStream)
	c := r.dial()
	id := c.open(false, reportsCall()...)
	for i, piece := range []string{everyHour[:3], everyHour[3:7], everyHour[7:]} {
		if g := c.of(id); g.head != nil {
			t.Errorf("a response before the request is complete: %v", g.head)
		}
		_ = c.data(id, i == 2, piece)
	}
	until(t, "a report", func() bool { g := c.of(id); return len(g.body) > 0 })
	g := c.of(id)
	report, err := orca.ParseProto(g.body[5:])
	if err != nil || g.body[0] != 0 || int(g.body[4]) != len(g.body)-5 || len(report.Named) != 2 {
		t.Errorf("%q: %+v, %v", g.body, report, err)
	}
	if g.status() != "200" || g.head["content-type"] != "application/grpc" || g.over() {
		t.Errorf("%v, over: %v", g.head, g.over())
	}
	if n := r.gate.Drain.Requests(); n != 0 {
		t.Errorf("%d requests are counted", n)
	}
	_ = c.do(func() error { return c.WriteRSTStream(id, http2.ErrCodeCancel) })
	until(t, "the end of the stream", func() bool { return r.openLoadStreams() == 0 })
}

func TestAMalformedCallForLoadReportsEndsWithGRPCStatusInternal(t *testing.T) {
	r := newRig(t, serveH2C(t, func(http.ResponseWriter, *http.Request) {}), withLoadStream)
	c := r.dial()
	for name, message := range map[string]string{
		"empty": "", "incomplete prefix": "\x00\x00", "too short": everyHour[:8], "two messages": everyHour + everyHour,
		"compressed": "\x01" + everyHour[1:], "no protobuf": "\x00\x00\x00\x00\x01\x0a", "too long": strings.Repeat("x", maxLoadRequest+1),
	} {
		id := c.open(false, reportsCall()...)
		_ = c.data(id, true, message)
		if g := c.await(id); g.head["grpc-status"] != "13" || !g.ended {
			t.Errorf("%s: %v", name, g.head)
		}
	}
	if n := r.openLoadStreams(); n != 0 {
		t.Errorf("%d streams are open", n)
	}
	for _, fields := range [][]string{request("GET", loadStreamPath), request("POST", loadStreamPath), request("POST", loadStreamPath+"s", "content-type", "application/grpc")} {
		if g := c.await(c.open(true, fields...)); g.status() != "200" || g.head["grpc-status"] != "" {
			t.Errorf("%v does not go to the container: %v", fields, g.head)
		}
	}
}

func TestTheNumberOfLoadStreamsIsBounded(t *testing.T) {
	r := newRig(t, serveH2C(t, func(http.ResponseWriter, *http.Request) {}), withLoadStream)
	c := r.dial()
	open := func() uint32 {
		id := c.open(false, reportsCall()...)
		_ = c.data(id, true, everyHour)
		return id
	}
	first := open()
	for range maxLoadStreams - 1 {
		open()
	}
	until(t, "all streams", func() bool { return r.openLoadStreams() == maxLoadStreams })
	if g := c.await(open()); g.head["grpc-status"] != "8" {
		t.Errorf("one stream more: %v", g.head)
	}
	_ = c.do(func() error { return c.WriteRSTStream(first, http2.ErrCodeCancel) })
	until(t, "the end of a stream", func() bool { return r.openLoadStreams() == maxLoadStreams-1 })
	last := open()
	until(t, "a report", func() bool { g := c.of(last); return len(g.body) > 0 })
	c.works()
}

func TestIncompleteCallsForLoadReportsDoNotBlockCompleteCalls(t *testing.T) {
	r := newRig(t, serveH2C(t, func(http.ResponseWriter, *http.Request) {}), withLoadStream)
	c := r.dial()
	var unfinished []uint32
	for range maxLoadStreams + 1 {
		id := c.open(false, reportsCall()...)
		_ = c.data(id, false, everyHour[:3])
		unfinished = append(unfinished, id)
	}
	c.works()
	finished := c.open(false, reportsCall()...)
	_ = c.data(finished, true, everyHour)
	until(t, "a report", func() bool { g := c.of(finished); return len(g.body) > 0 || g.ended })
	if g := c.of(finished); g.head["grpc-status"] != "" {
		t.Fatalf("a complete call beside unfinished calls: %v", g.head)
	}
	r.on(func() {
		for conn := range r.part.clients.all() {
			for _, s := range conn.table.open {
				if s.phase != phaseLoadRequest {
					continue
				}
				if left := s.deadline - r.part.loop.Now(); left > loadRequestTimeout {
					t.Errorf("%v until the deadline", time.Duration(left))
				}
				s.deadline = r.part.loop.Now()
				s.handle.Wake()
			}
		}
	})
	for _, id := range unfinished {
		if g := c.await(id); g.head["grpc-status"] != "4" || !g.ended {
			t.Errorf("an unfinished call after its deadline: %v", g.head)
		}
	}
	if n := r.openLoadStreams(); n != 1 {
		t.Errorf("%d streams are open", n)
	}
}

func TestALoadReportCallAboveTheStreamLimitIsRejectedBeforeItIsComplete(t *testing.T) {
	r := newRig(t, serveH2C(t, func(http.ResponseWriter, *http.Request) {}), withLoadStream)
	c := r.dial()
	for range maxLoadStreams {
		_ = c.data(c.open(false, reportsCall()...), true, everyHour)
	}
	until(t, "all streams", func() bool { return r.openLoadStreams() == maxLoadStreams })
	if g := c.await(c.open(false, reportsCall()...)); g.head["grpc-status"] != "8" || !g.ended {
		t.Errorf("%v", g.head)
	}
}

func TestALoadStreamThatIsNotReadIsReset(t *testing.T) {
	r := newRig(t, serveH2C(t, func(http.ResponseWriter, *http.Request) {}), withLoadStream)
	c := r.dialUnread(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 10})
	c.autoCredit = false
	done := make(chan struct{})
	go func() { defer close(done); c.read() }()
	t.Cleanup(func() { _ = c.conn.Close(); <-done })
	id := c.open(false, reportsCall()...)
	_ = c.data(id, true, "\x00\x00\x00\x00\x00") // an empty OrcaLoadReportRequest selects the shortest interval
	if g := c.await(id); !g.reset || len(g.body) != 10 {
		t.Errorf("%q, reset: %v", g.body, g.reset)
	}
}

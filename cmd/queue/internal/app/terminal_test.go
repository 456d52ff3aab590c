package app

import (
	"strings"
	"testing"
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
)

func TestATerminalShowsEachRequestAsOneReadableLine(t *testing.T) {
	for _, c := range []struct {
		hasColor       bool
		method, target string
		status         int
		took           time.Duration
		outcome        gate.Outcome
		want           string
	}{
		{false, "GET", "/a?b=%20", 200, 1234567 * time.Nanosecond, gate.Served, "GET /a?b=%20 200 1.2ms"},
		{true, "GET", "/", 204, 1500 * time.Nanosecond, gate.Served, "GET / \x1b[32m204\x1b[0m 2µs"},
		{true, "GET", "/", 304, time.Second, gate.Served, "GET / \x1b[36m304\x1b[0m 1s"},
		{true, "GET", "/", 404, 1234 * time.Millisecond, gate.Served, "GET / \x1b[33m404\x1b[0m 1.23s"},
		{true, "GET", "/", 503, 0, gate.QueueFull, "GET / \x1b[31m503\x1b[0m 0s (queue-full)"},
		{true, "GET", "/", 101, 0, gate.Tunnelled, "GET / 101 0s (tunnelled)"},
		{false, "G\x1b[2J", "/\x1b]0;title\x07 \x7f\xff", 400, 0, gate.Served, "G%1B[2J /%1B]0;title%07%20%7F%FF 400 0s"},
		{false, "GET", strings.Repeat("x", shownTarget+1), 200, 0, gate.Served, "GET " + strings.Repeat("x", shownTarget) + "... 200 0s"},
	} {
		x := &gate.Record{Method: []byte(c.method), Target: []byte(c.target), Status: c.status, Outcome: c.outcome, Arrived: 1, Ended: 1 + c.took}
		if got := (&terminal{hasColor: c.hasColor}).request(x); got != c.want {
			t.Errorf("got  %q\nwant %q", got, c.want)
		}
	}
}

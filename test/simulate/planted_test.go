package simulate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// planted is a fault of the gate: what is written in the place of what.
type planted struct{ name, file, old, new string }

// faults are those that the simulation is to find. The first ones are faults
// that the gate has had.
var faults = []planted{
	{"a connection goes back to the pool behind a 204 that announced a body", "http1/upstream.go", " && !u.spent", ""},
	{"an early answer does not say that the connection closes", "http1/client.go", "&& c.reader.whole() && !s", "&& !s"},
	{"a reset that a write has met reads as an end", "loop/sock.go", "s.reset = s.reset || err == unix.ECONNRESET", ""},
	{"an exchange that changes the line stays counted as held", "pending.go", "	case &x.gate.Pending.line:\n		x.gate.Pending.leave(x)\n", ""},
	{"a paused listener closes itself when a shutdown begins", "serve/listener.go", "	if !l.paused || l.worker.Leaving() {\n", "	if l.paused && l.worker.Leaving() {\n		l.close()\n	}\n	if !l.paused {\n"},
	{"a lingering connection is reset when its client half-closes", "http1/reply.go", "for !s.eng.loop.Closing() && s.now()", "for !sock.Failed() && !s.eng.loop.Closing() && s.now()"},
	{"a spliced answer whose client has left panics", "http1/reader.go", "sink, ok := dst.(rawSink)\n	if !ok { // what", "sink := dst.(rawSink)\n	if false { // what"},
	{"what is as long as a preface is one", "wire/h2/frame.go", "return possible, possible && n", "return possible, n"},

	{"one more than the limit is admitted", "admission.go", "		if word&inFlightMask >= a.limit.Load() {", "		if word&inFlightMask > a.limit.Load() {"},
	{"one more than the capacity is queued", "admission.go", "word>>waitingShift >= a.capacity", "word>>waitingShift > a.capacity"},
	{"last come, first served", "admission.go", "	w.prev = l.tail\n	if l.tail == nil {\n		l.head = w\n	} else {\n		l.tail.next = w\n	}\n	l.tail = w\n", "	w.next = l.head\n	if l.head == nil {\n		l.tail = w\n	} else {\n		l.head.prev = w\n	}\n	l.head = w\n"},
	{"a slot is handed over without a word", "admission.go", "	notify()\n	return true", "	_ = notify\n	return true"},
	{"a slot is not given back", "claim.go", "if c.slot || c.queued && !a.Withdraw(&c.waiter) {", "if c.slot && c.giveUp == 0 && a.InFlight() > 1 || c.queued && !a.Withdraw(&c.waiter) {"},
	{"a slot that comes while its waiter leaves is lost", "claim.go", "if c.slot || c.queued && !a.Withdraw(&c.waiter) {", "if c.queued {\n		a.Withdraw(&c.waiter)\n	}\n	if c.slot {"},
	{"a slot is given back with the head of the answer", "relay.go", "			x.client.Answer(x.up)\n", "			x.client.Answer(x.up)\n			x.claim.release(x.gate.Admission)\n"},
	{"a hard limit lets go of the slot with the client", "relay.go", "if !x.gate.HardConcurrency || x", "if x.gate.HardConcurrency || x"},
	{"the longest wait in the queue is not kept", "claim.go", "c.giveUp != 0 && now >= c.giveUp", "false"},

	{"a request that is not idempotent is sent again", "relay.go", "x.client.Idempotent() && x.client.Rewind(true)", "x.client.Rewind(true)"},
	{"a request is sent again on a fresh connection that broke", "relay.go", "x.up.Reused() && !x.replayed", "!x.replayed"},
	{"a request is sent again as often as it fails", "relay.go", "case x.up.Reused() && !x.replayed &&", "case (x.up.Reused() || x.replayed) &&"},
	{"a request is not sent again", "relay.go", "case x.up.Reused() && !x.replayed && !x.up.Heard():", "case false:"},
	{"a client that leaves while it is answered is not noticed", "relay.go", "		if x.client.Gone() && x.state != StateTunnelling {\n			return x.left()\n		}\n		moved", "		moved"},
	{"a client that leaves the queue is not noticed", "relay.go", "			case x.client.Gone():\n				o, done = ClientGone, true\n			case x.state", "			case x.state"},
	{"the gate answers for a client that waits for a 100, but not for a silent container", "relay.go", "		case !moved && x.expects.due(now):", "		case false && x.expects.due(now):"},
	{"interim answers go to HTTP/1.0", "http1/client.go", "if c.session.req.Minor > 0 {\n		res", "if true {\n		res"},
	{"interim answers are left out", "relay.go", "	x.client.Interim(x.up)\n", ""},
	{"trailers are left out", "http1/writer.go", "		out = append(out, trailers...)\n", ""},
	{"a cut answer without a length ends like a whole one", "http1/session.go", "if s.client.endless {", "if false {"},
	{"a cut answer in chunks gets a last chunk", "http1/session.go", "	case gate.CutOff:\n", "	case gate.CutOff:\n		s.client.Finish(nil)\n		s.client.Flush()\n"},
	{"pipelined requests are lost", "http1/input.go", "		in.r, in.w = rd.r, rd.w\n", "		in.r, in.w = 0, 0\n"},
	{"connections are not closed slowly", "http1/reply.go", "if s.eng.cfg.lingering.Inc() > maxLingering {", "if s.eng.cfg.lingering.Inc() > 0 {"},
	{"who takes a reply slowly is cut off after a second", "http1/reply.go", "replyTimeout  = int64(5 * time.Second)", "replyTimeout  = int64(time.Second)"},
	{"bytes behind an answer stay for the next one", "http1/upstream.go", "len(u.reader.leftover()) == 0 && ", ""},
	{"idle connections are taken without a look", "http1/pool.go", "if u.sock.Quiet() && (", "if ("},
	{"a connection that the container closes goes back to the pool", "http1/upstream.go", " && u.reusable && !u.Unwilling()", " && (u.reusable || u.sock.Open())"},

	{"a read that fills its buffer counts as the last", "loop/sock.go", "if n < most && !s.hangup", "if n <= most && !s.hangup"},
	{"a deadline that moves to earlier is not kept", "loop/timer.go", "		if t.when <= when {\n			return\n		}\n		t.when = when", "		if t.when <= when || t.when > 0 {\n			return\n		}\n		t.when = when"},
	{"a wake-up during a step is lost", "loop/loop.go", "		h.queued.Store(false)\n		h.routine.Step()\n", "		h.routine.Step()\n		h.queued.Store(false)\n"},
	{"the request clock stands", "clocks.go", "case c.request != 0 && now >= c.request,", "case c.request != 0 && now >= 2*c.request,"},
	{"the idle clock does not notice bytes", "clocks.go", "c.active = now }", "_ = now }"},
	{"an interim answer does not stop the response start clock", "relay.go", "			moved = true\n			x.clocks.Started()\n			x.interim()", "			moved = true\n			x.interim()"},
	{"the request clock cuts tunnels", "clocks.go", "	c.request, c.start = 0, 0\n", "	c.start = 0\n"},

	{"a container that listens again is not noticed by those who wait", "pending.go", "	for x := p.line.first; x != nil; x = x.Dial.next {\n		x.Wake()\n	}\n}\n\n// Hurry", "}\n\n// Hurry"},
	{"the next of the pending dials is not woken", "pending.go", "	if p.line.first != nil && p.line.first != was {\n		p.line.first.Wake()\n	}\n", "	_ = was\n"},
	{"who was held waits for a descriptor in vain", "upstream/dialer.go", "return p.Holds(x) && !p.Clear()", "return p.Holds(x)"},
	{"pending dials give up too early", "pending.go", "d.giveUp = now + int64(wait)", "d.giveUp = now + int64(wait)/2"},
	{"a descriptor of the budget is lost with each client", "http1/conn.go", "	c.list.remove(c)\n	c.eng.gate.Descriptors.Release()\n", "	c.list.remove(c)\n"},
	{"the memory of bodies is not given back", "http1/buffers.go", "		b.bodies.Release(bulkBytes)\n", ""},
	{"a pipe is lost", "http1/reader.go", "		r.bufs.pipes.put(r.pipe)\n		r.pipe = nil", "		r.pipe = nil"},
	{"a shutdown resets its backlog", "serve/worker.go", "	for _, l := range w.listeners {\n		l.drain()\n	}\n", ""},
	{"a shutdown does not wait for requests", "serve/shutdown.go", "drain.Requests() > 0 || ", ""},
	{"a drain is not quiet before it goes on", "drain.go", "; left > 0 {\n", "; left > d.period {\n"},
	{"the answer to HEAD has a body", "wire/response.go", "case r.Status == 304 || bytes.Equal(method, []byte(\"HEAD\")):", "case r.Status == 304:"},
	{"fields of the connection go on to the container", "wire/request.go", "case field.Connection, field.HopByHop,", "case field.HopByHop,"},
	{"a protocol that was not asked for is switched to", "relay.go", "if !x.client.Ended() || !x.client.Upgrades(x.up) {", "if !x.client.Ended() {"},
}

const packages = "../../pkg/gate/"

// TestPlantedFaultsCanBePlanted looks whether what is to be replaced is there,
// once: who changes that code changes its line here.
func TestPlantedFaultsCanBePlanted(t *testing.T) {
	for _, f := range faults {
		text, err := os.ReadFile(packages + f.file)
		if err != nil {
			t.Errorf("%s: %v", f.name, err)
		} else if n := bytes.Count(text, []byte(f.old)); n != 1 {
			t.Errorf("%s: %q stands %d times in %s", f.name, f.old, n, f.file)
		}
	}
}

// TestPlantedFaultsAreFound plants one fault after the other into a build of
// this test, and runs seeds until it is found. PLANTED is a part of the names,
// or "all". What is not found is printed.
func TestPlantedFaultsAreFound(t *testing.T) {
	which := os.Getenv("PLANTED")
	if which == "" {
		t.Skip("minutes of builds: make planted")
	}
	found, missed := 0, 0
	from, _ := strconv.Atoi(os.Getenv("FROM"))
	for _, f := range faults[from:] {
		if which != "all" && !strings.Contains(f.name, which) {
			continue
		}
		finding := f.search(t)
		if finding == "" {
			missed++
			fmt.Printf("| %s | **not found** |\n", f.name)
			continue
		}
		found++
		fmt.Printf("| %s | %s |\n", f.name, finding)
	}
	fmt.Printf("%d found, %d not\n", found, missed)
}

var seedLine = regexp.MustCompile(`(?m)seed (\d+): (.*)$`)

// plantedTime is the processor time within which a fault is to be found.
func plantedTime() string {
	if text := os.Getenv("SIMCPU"); text != "" {
		return text
	}
	return "60s"
}

// search is what the simulation says of the gate with f.
func (f *planted) search(t *testing.T) string {
	dir := t.TempDir()
	source, err := filepath.Abs(packages + f.file)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Count(text, []byte(f.old)) != 1 {
		t.Errorf("%s: %q does not stand in %s once", f.name, f.old, f.file)
		return ""
	}
	wrong := filepath.Join(dir, "wrong.go")
	overlay, _ := json.Marshal(map[string]map[string]string{"Replace": {source: wrong}})
	binary := filepath.Join(dir, "simulate.test")
	for name, content := range map[string][]byte{wrong: bytes.Replace(text, []byte(f.old), []byte(f.new), 1), filepath.Join(dir, "overlay.json"): overlay} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command("go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay", filepath.Join(dir, "overlay.json"), "-o", binary, ".").CombinedOutput(); err != nil {
		t.Errorf("%s: %v\n%s", f.name, err, out)
		return ""
	}
	run := exec.Command(binary, "-test.run", "TestTheGateFromASeed", "-test.timeout", "30m")
	run.Env = append(os.Environ(), "SIMTIME=25m", "SIMCPU="+plantedTime(), "FIRST=1", "SHRINK=no", "SEED=")
	out, err := run.CombinedOutput()
	if err == nil {
		return ""
	}
	if m := seedLine.FindAllSubmatch(out, -1); m != nil {
		last := m[len(m)-1]
		return fmt.Sprintf("%s (seed %s, %s)", kind(string(last[2])), last[1], run.ProcessState.UserTime().Round(100*time.Millisecond))
	}
	if i := bytes.Index(out, []byte("panic: ")); i >= 0 {
		line, _, _ := bytes.Cut(out[i:], []byte("\n"))
		return string(line)
	}
	return "ends badly: " + printable(out)
}

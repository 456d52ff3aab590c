package e2e

import (
	"testing"
	"time"
)

const expecting = "POST /expect HTTP/1.1\r\nHost: gate.test\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n"

func TestA100ContinueOfTheContainerIsForwardedOnce(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	c := dial(t, g)
	c.send(expecting)
	p := k.accept()
	parseHead(t, p.head()).field("Expect", "100-continue")
	p.send("HTTP/1.1 100 Continue\r\n\r\n")
	c.expect("HTTP/1.1 100 Continue\r\n\r\n")
	c.send("body")
	p.expect("body")
	p.send(okBody)
	c.response("POST").is(200, "ok")
	c.send(request("GET", "/next"))
	p.head()
	p.send(okBody)
	c.response("GET").is(200, "ok")
}

// finalResponse reads the final response to a request with an expectation, which was sent
// at this time. If the container needed a second on a busy machine, a 100 of the gate
// precedes the response.
func (c *client) finalResponse(sent time.Time) response {
	c.t.Helper()
	a := c.response("POST")
	if a.status == 100 && time.Since(sent) >= 900*time.Millisecond {
		a = c.response("POST")
	}
	return a
}

func TestTheContainersFinalResponseToAnExpectationIsForwarded(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	for _, line := range []string{"417 Expectation Failed", "413 Content Too Large", "401 Unauthorized"} {
		c := dial(t, g)
		sent := time.Now()
		c.send(expecting)
		p := k.accept()
		p.head()
		p.send("HTTP/1.1 " + line + "\r\nContent-Length: 2\r\nX-Own: 1\r\n\r\nno")
		a := c.finalResponse(sent)
		if a.line+"\r\n" != asSent("HTTP/1.1 "+line+"\r\n") || a.body != "no" {
			t.Errorf("got %q %q, want %q", a.line, a.body, line)
		}
		a.field("X-Own", "1")
		a.lacks("K-Gate-Outcome")
		c.close()
		// The gate has no body to send until the client sends it.
		if rest, _ := p.readAll(); rest != "" {
			t.Errorf("the container got %q instead of a body", rest)
		}
	}
}

func TestTheGateSends100AfterASecondOfSilence(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	c := dial(t, g)
	start := time.Now()
	c.send(expecting)
	p := k.accept()
	p.head()
	c.expect("HTTP/1.1 100 Continue\r\n\r\n")
	if waited := time.Since(start); waited < 900*time.Millisecond {
		t.Errorf("the gate sent 100 after %v", waited)
	}
	c.send("body")
	p.expect("body")
	p.send(okBody)
	c.response("POST").is(200, "ok")
}

func TestAFinalResponseWithout100IsForwarded(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	c := dial(t, g)
	sent := time.Now()
	c.send(expecting)
	p := k.accept()
	p.head()
	p.send(okBody)
	c.finalResponse(sent).is(200, "ok")
}

func TestABodySentWithoutWaitingFor100IsForwarded(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	c := dial(t, g)
	c.send(expecting + "body")
	p := k.accept()
	p.head()
	p.expect("body")
	p.send(okBody)
	c.response("POST").is(200, "ok")
}

func TestAnUnknownExpectationGets417(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	for _, value := range []string{"200-ok", "100-continue, other", "x"} {
		c := dial(t, g)
		c.send(request("POST", "/", "Expect: "+value, "Content-Length: 0"))
		a := c.response("POST")
		if a.status != 417 {
			t.Errorf("Expect: %s got %d", value, a.status)
			continue
		}
		a.byGate()
	}
	k.unseen("an unknown expectation")
	c := dial(t, g)
	c.send("POST / HTTP/1.1\r\nHost: gate.test\r\nExpect: 100-Continue\r\nContent-Length: 1\r\n\r\n")
	p := k.accept()
	p.head()
	p.send("HTTP/1.1 100 Continue\r\n\r\n")
	c.expect("HTTP/1.1 100 Continue\r\n\r\n")
}

package hostile

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// run is a case, or a variant of it, with tokens.
type run struct {
	c        *hostileCase
	variant  string
	id       int
	wants    []want
	request  []step
	response []step
	slowly   bool // send single bytes, in both directions
	follower bool // another request follows the case

	userPort string
	raw      string // bytes after a 101
	sent     []byte
	expected []message // valid requests in sent
	methods  []string  // methods of the requests in sent, up to the first invalid one
	roles    []string  // tokens of these requests
}

// outcome is the result of a run at the client.
type outcome struct {
	*run
	stream   []byte
	end      endKind
	sentinel bool // another request was sent on the connection
	findings []finding
}

// newRun returns a run of a variant of a case. It replaces the variables in the case's
// scripts, such as the tokens that identify the requests of this run.
func newRun(c *hostileCase, v variant, id, userPort int) (*run, error) {
	variables := map[string]string{"userport": strconv.Itoa(userPort)}
	for role := 'a'; role <= 'z'; role++ {
		variables[strings.ToUpper(string(role))] = tokenOf(id, string(role))
	}
	r := &run{c: c, variant: v.name, id: id, userPort: variables["userport"], slowly: v.slowly, follower: v.follower, wants: v.expectations(c.wants, c.closes)}
	var err error
	if r.request, err = expand(v.firstScript+c.request+v.lastScript(c), variables); err != nil {
		return nil, fmt.Errorf("%s: %s: %w", c.file, c.name, err)
	}
	if r.response, err = expand(c.response, variables); err != nil {
		return nil, fmt.Errorf("%s: %s: %w", c.file, c.name, err)
	}
	raw, err := expand(c.raw, variables)
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", c.file, c.name, err)
	}
	r.raw = string(written(raw))
	if v.splitAt > 0 {
		all := written(r.request)
		r.request = []step{{stepWrite, all[:v.splitAt]}, {kind: stepPause}, {stepWrite, all[v.splitAt:]}}
	}
	r.sent = written(r.request)
	r.readSent()
	return r, nil
}

// readSent parses the sent bytes strictly.
func (r *run) readSent() {
	for at := 0; at < len(r.sent); {
		m, err := parseRequest(r.sent[at:], true)
		if err != nil {
			method, _, _ := bytes.Cut(r.sent[at:], []byte(" "))
			r.methods = append(r.methods, string(method))
			r.roles = append(r.roles, string(tokenPattern.Find(r.sent[at:])))
			return
		}
		at += m.end
		r.expected = append(r.expected, m)
		r.methods = append(r.methods, m.method)
		r.roles = append(r.roles, tokenPattern.FindString(m.target))
	}
}

// role returns the token of the nth request, or "".
func (r *run) role(nth int) string {
	if nth < len(r.roles) {
		return r.roles[nth]
	}
	return ""
}

// last returns what is expected of the last message.
func (r *run) last() wantKind { return r.wants[len(r.wants)-1].kind }

func (r *run) do(t *target) *outcome {
	o := &outcome{run: r}
	var s *script
	if r.c.testsResponse() {
		s = newScript(r)
	}
	t.container.begin(r.id, s, r.c.unasked)
	c, err := dialClient(t.address, append(r.methods[:min(len(r.methods), len(r.wants)):len(r.methods)], "GET"))
	if err != nil {
		o.add(died, "cannot connect: %v", err)
		return o
	}
	defer c.conn.Close()
	deadline := time.Now().Add(t.timeout)
	heads := 0
	for _, st := range r.request {
		switch st.kind {
		case stepWrite:
			c.write(st.data, r.slowly)
		case stepPause:
			time.Sleep(pauseTime)
		case stepAwait:
			heads++
			c.wait(deadline, func(b []byte, e endKind) bool { return len(readResponses(b, c.methods, e).all) >= heads })
		case stepFinish:
			c.conn.CloseWrite()
		case stepReset:
			c.conn.SetLinger(0)
			c.conn.Close()
		}
	}
	o.await(t, c, deadline)
	if s != nil {
		s.release()
	}
	if o.keeps(c) {
		o.sentinel = true
		c.write([]byte("GET /"+tokenOf(r.id, "z")+" HTTP/1.1\r\nHost: sentinel\r\nConnection: close\r\n\r\n"), false)
		if !c.wait(time.Now().Add(t.timeout), func(_ []byte, e endKind) bool { return e != endNone }) {
			o.add(hang, "the request after the case got neither a response nor a close")
		}
	}
	o.stream, o.end, _ = c.state()
	o.stream = bytes.Clone(o.stream)
	o.probe(t)
	o.awaitBetween(t)
	return o
}

func (o *outcome) await(t *target, c *client, deadline time.Time) {
	hasResponse := func(b []byte, e endKind) bool {
		list := readResponses(b, c.methods, e)
		return len(list.finals) >= len(o.wants) || errors.Is(list.err, errMalformed)
	}
	closed := func(_ []byte, e endKind) bool { return e != endNone }
	switch o.last() {
	case wantReject, wantBreak, wantForeign, wantCut:
		c.wait(deadline, func(b []byte, e endKind) bool { return e != endNone || hasResponse(b, e) })
		if c.wait(time.Now().Add(min(closeTime, t.timeout)), closed) {
			return
		}
		if b, e, _ := c.state(); hasResponse(b, e) {
			// With wantCut the gate may keep the connection open after a complete local
			// reply. It sends such a reply if the container has reset its connection,
			// because a reset can discard the container's response.
			if o.last() != wantCut {
				o.add(notClosed, "got a response, but no close")
			}
			return
		}
		o.add(hang, "neither a response nor a close")
	case wantTunnel:
		raw := func(b []byte, e endKind) bool { return len(readResponses(b, c.methods, e).tunnel) >= len(o.raw) }
		if !c.wait(deadline, raw) {
			return
		}
		c.conn.CloseWrite()
		if !c.wait(deadline, closed) {
			o.add(hang, "the tunnel does not end with its client")
		}
	default:
		if !c.wait(deadline, hasResponse) {
			if _, e, _ := c.state(); e == endNone {
				o.add(hang, "no response")
			}
		}
	}
	if o.c.closes && !c.wait(deadline, closed) {
		o.add(notClosed, "got a response, but no close")
	}
}

// keeps reports whether the connection can carry another request.
func (o *outcome) keeps(c *client) bool {
	switch o.last() {
	case wantReject, wantBreak, wantForeign, wantCut, wantTunnel:
		return false
	}
	b, e, _ := c.state()
	return e == endNone && !o.c.closes && len(readResponses(b, c.methods, e).finals) >= len(o.wants)
}

// probe sends requests on new connections. Each must get its own response.
func (o *outcome) probe(t *target) {
	roles := "u"
	if o.c.testsResponse() {
		roles = "uvwy"
	}
	for _, role := range strings.Split(roles, "") {
		token := tokenOf(o.id, role)
		c, err := dialClient(t.address, []string{"GET"})
		if err != nil {
			o.add(died, "cannot connect afterwards: %v", err)
			return
		}
		c.write([]byte("GET /"+token+" HTTP/1.1\r\nHost: fresh\r\n\r\n"), false)
		c.wait(time.Now().Add(t.timeout), func(b []byte, e endKind) bool { return len(readResponses(b, c.methods, e).finals) > 0 })
		b, e, _ := c.state()
		c.conn.Close()
		list := readResponses(b, c.methods, e)
		switch {
		case len(list.finals) == 0 && e == endNone:
			o.add(hang, "the next request on a new connection got no response")
		case len(list.finals) == 0:
			o.add(nextFailed, "the next request on a new connection got %.80q", b)
		default:
			got, isContainers := list.finals[0].get("X-Token")
			if got != token && isContainers {
				o.add(unsafe, "the next request on a new connection got the response to %s", got)
			} else if got != token {
				o.add(nextFailed, "the next request on a new connection got %d %.80q", list.finals[0].status, list.finals[0].body)
			}
		}
	}
}

// awaitBetween waits until no connection of the container waits for the rest of a
// message.
func (o *outcome) awaitBetween(t *target) {
	deadline := time.Now().Add(t.timeout)
	for {
		open := t.container.describePending()
		if open == "" {
			return
		}
		if time.Now().After(deadline) {
			o.add(hang, "at the container: %s", open)
			t.container.forget()
			return
		}
		time.Sleep(time.Millisecond)
	}
}

func newScript(r *run) *script {
	steps := r.response
	if r.slowly {
		steps = nil
		for _, st := range r.response {
			if st.kind != stepWrite {
				steps = append(steps, st)
				continue
			}
			for i := range st.data {
				steps = append(steps, step{stepWrite, st.data[i : i+1]})
			}
		}
	}
	return &script{steps: steps, early: r.c.early, synced: make(chan struct{}), done: make(chan struct{})}
}

// release is called when the client has its responses. It ends the {sync} steps of the
// script. If the container has begun to play the script, release then waits for the
// script's end, at most for hangTime.
func (s *script) release() {
	close(s.synced)
	if !s.began.Load() {
		return
	}
	select {
	case <-s.done:
	case <-time.After(hangTime):
	}
}

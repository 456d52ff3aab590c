package hostile

import (
	"errors"
	"slices"
	"strconv"
	"strings"
)

// arrivals is what the container received in a run.
type arrivals struct {
	complete []message
	partial  []message // incomplete messages with a complete head
	tail     []string  // bytes that form no message
}

// count counts the messages with a token.
func (a *arrivals) count(token string) (complete, partial int) {
	for _, m := range a.complete {
		if token != "" && tokenPattern.FindString(m.target) == token {
			complete++
		}
	}
	for _, m := range a.partial {
		if token != "" && tokenPattern.FindString(m.target) == token {
			partial++
		}
	}
	for _, b := range a.tail {
		if token != "" && strings.Contains(b, token) {
			partial++
		}
	}
	return complete, partial
}

// judge adds findings to runs whose connections have ended.
func judge(c *container, all []*outcome) {
	byRun := map[int]*outcome{}
	for _, o := range all {
		byRun[o.id] = o
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	seen := map[int]*arrivals{}
	arrivalsOf := func(run int) *arrivals {
		if seen[run] == nil {
			seen[run] = &arrivals{}
		}
		return seen[run]
	}
	for _, cc := range c.conns {
		judgeConnection(cc, arrivalsOf, byRun)
	}
	for _, o := range all {
		o.judgeContainer(arrivalsOf(o.id))
		o.judgeClient()
	}
}

// judgeConnection frames the bytes of a connection of the container, and assigns the
// messages to runs.
func judgeConnection(cc *containerConn, arrivalsOf func(int) *arrivals, byRun map[int]*outcome) {
	blame := func(run int, format string, args ...any) {
		if o := byRun[run]; o != nil {
			o.add(unsafe, format, args...)
		}
	}
	at := 0
	for _, m := range cc.messages {
		run := runOf(m, cc.runAt(at))
		arrivalsOf(run).complete = append(arrivalsOf(run).complete, m)
		at = m.end
	}
	end := len(cc.received)
	if cc.tunnel > 0 {
		end = cc.tunnel
	}
	for from, start := 0, 0; from <= len(cc.messages); {
		i, err := stdlibRequests(cc.received[start:end], cc.messages[from:], start)
		if err == nil {
			break
		}
		from += i + 1
		if from > len(cc.messages) {
			blame(cc.runAt(at), "at the container: %v", err)
			break
		}
		// The two parsers disagree about this message. Continue at the end that the
		// strict parser found, to compare the later messages too.
		start = cc.messages[from-1].end
		blame(runOf(cc.messages[from-1], cc.runAt(start)), "at the container: %v", err)
	}
	if at >= end {
		return
	}
	rest := cc.received[at:end]
	run := cc.runAt(at)
	if cc.partial.headEnd > 0 {
		run = runOf(cc.partial, run)
		arrivalsOf(run).partial = append(arrivalsOf(run).partial, cc.partial)
	} else {
		arrivalsOf(run).tail = append(arrivalsOf(run).tail, string(rest))
	}
	if errors.Is(cc.err, errMalformed) {
		blame(run, "the container received bytes that the strict parser rejects: %v\n%s", cc.err, excerpt(rest))
	}
}

// runOf returns the number of the run to which a message belongs. The token in the
// message's target contains this number. If the target has no token, runOf returns its
// second parameter.
func runOf(m message, otherwise int) int {
	if match := tokenPattern.FindStringSubmatch(m.target); match != nil {
		n, _ := strconv.Atoi(match[1])
		return n
	}
	return otherwise
}

// runAt returns the run in which the byte at offset arrived.
func (cc *containerConn) runAt(offset int) int {
	run := 0
	for _, a := range cc.runs {
		if a.offset > offset {
			break
		}
		run = a.run
	}
	return run
}

// judgeContainer compares the received requests with the sent ones.
func (o *outcome) judgeContainer(a *arrivals) {
	if complete, partial := a.count(tokenOf(o.id, "s")); complete+partial > 0 {
		o.add(unsafe, "the smuggled request reached the container")
	}
	for i, w := range o.wants {
		token := o.role(i)
		complete, partial := a.count(token)
		switch w.kind {
		case wantForward, wantEither, wantFault, wantCut, wantTunnel:
			o.judgeForwarded(a, i, complete, partial)
		case wantReject, wantGate, wantForeign:
			if complete > 0 {
				o.add(lenient, "request %d reached the container", i)
			} else if partial > 0 {
				o.add(lenient, "bytes of request %d reached the container", i)
			}
		case wantBreak:
			if complete > 0 {
				o.add(unsafe, "request %d was truncated, but looks complete to the container", i)
			}
		}
	}
	if len(o.roles) == 0 && len(a.complete) > 0 {
		known := func(m message) bool { return tokenPattern.MatchString(m.target) }
		if i := slices.IndexFunc(a.complete, func(m message) bool { return !known(m) }); i >= 0 {
			o.add(lenient, "%s %.60q reached the container", a.complete[i].method, a.complete[i].target)
		}
	}
	for _, t := range a.tail {
		if o.last() == wantReject && tokenPattern.FindString(t) == "" {
			o.add(lenient, "the container received %.60q", t)
		}
	}
	for i := len(o.wants); i < len(o.roles); i++ {
		if complete, _ := a.count(o.role(i)); complete > 0 && !slices.Contains(o.roles[:len(o.wants)], o.role(i)) {
			o.add(lenient, "request %d after a rejected request reached the container", i)
		}
	}
}

// judgeForwarded judges the nth request.
func (o *outcome) judgeForwarded(a *arrivals, nth, complete, partial int) {
	kind := o.wants[nth].kind
	if complete > 1 && !(kind == wantFault || kind == wantCut) {
		o.add(unsafe, "request %d reached the container %d times", nth, complete)
	}
	if complete == 0 {
		if partial > 0 && kind == wantForward && !o.c.early {
			o.add(unfaithful, "request %d reached the container only in part", nth)
		}
		return
	}
	i := slices.IndexFunc(a.complete, func(m message) bool { return tokenPattern.FindString(m.target) == o.role(nth) })
	got, first := a.complete[i], strings.HasSuffix(o.role(nth), "t")
	if first && !o.c.testsResponse() {
		for _, miss := range o.compareSeen(got) {
			o.add(unfaithful, "request %d: %s", nth, miss)
		}
	}
	if nth >= len(o.expected) || kind == wantEither {
		return
	}
	sent := o.expected[nth]
	if first && o.c.target != "" {
		target, err := expand(o.c.target, map[string]string{"T": o.role(nth)})
		if err != nil {
			o.add(unfaithful, "%v", err)
		}
		sent.target = string(written(target))
	}
	for _, difference := range compareRequests(sent, got) {
		o.add(unfaithful, "request %d: %s", nth, difference)
	}
}

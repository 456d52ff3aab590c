package hostile

import (
	"errors"
	"net/http"
	"slices"
	"strings"
)

func ofContainer(m message) bool {
	_, isContainers := m.get("X-Container")
	_, token := m.get("X-Token")
	return isContainers || token
}

func (o *outcome) judgeClient() {
	if o.last() == wantForeign {
		return
	}
	methods := append(o.methods[:min(len(o.methods), len(o.wants)):len(o.methods)], "GET")
	list := readResponses(o.stream, methods, o.end)
	if errors.Is(list.err, errMalformed) {
		o.add(unsafe, "the strict parser rejects the responses: %v", list.err)
		return
	}
	if err := stdlibResponses(o.stream, list.all, methods, list.isComplete); err != nil {
		o.add(unsafe, "at the client: %v", err)
	}
	allowed := len(o.wants)
	for _, more := range []bool{o.sentinel, o.follower && !keepsGoing(o.c.wants)} {
		if more {
			allowed++
		}
	}
	if len(list.finals) > allowed {
		o.add(unsafe, "%d responses to %d requests", len(list.finals), allowed)
	}
	if o.c.testsResponse() && strings.Contains(string(o.stream), tokenOf(o.id, "s")) {
		o.add(unsafe, "excess bytes after a response reached the client")
	}
	for i, m := range list.finals[:min(len(list.finals), allowed)] {
		wanted := []string{o.role(i)}
		if i >= len(o.wants) {
			wanted = []string{tokenOf(o.id, "k"), tokenOf(o.id, "z")}
		}
		if got, isContainers := m.get("X-Token"); isContainers && !slices.Contains(wanted, got) {
			o.add(unsafe, "response %d belongs to %s, not to %s", i, got, wanted)
		}
	}
	for i, w := range o.wants {
		if i >= len(list.finals) {
			o.judgeMissing(list, i, w)
			break
		}
		o.judgeResponse(list, i, w)
	}
	if o.sentinel && len(list.finals) == len(o.wants) {
		last := list.finals[len(list.finals)-1]
		if ofContainer(last) && !last.has("Connection", "close") && last.framing != frameClose {
			o.add(unfaithful, "closed after a valid exchange without announcing it")
		}
	}
}

// judgeMissing judges a run that ended without a complete nth response. The parameter w
// is the expectation for this response.
func (o *outcome) judgeMissing(list responseList, nth int, w want) {
	switch w.kind {
	case wantForward, wantTunnel:
		o.add(rejectedValid, "request %d got no complete response", nth)
	case wantEither:
		if nth == 0 || ofContainer(list.finals[nth-1]) {
			o.add(wrongStatus, "request %d got no response", nth)
		}
	case wantReject, wantGate, wantFault:
		o.add(wrongStatus, "request %d got no response", nth)
	case wantCut:
		if list.isComplete {
			o.add(wrongStatus, "closed without a response head")
		}
	}
}

func (o *outcome) judgeResponse(list responseList, nth int, w want) {
	m := list.finals[nth]
	scripted := o.c.testsResponse() && strings.HasSuffix(o.role(nth), "t")
	if scripted && ofContainer(m) {
		for _, miss := range o.compareSeen(m) {
			o.add(unfaithful, "response: %s", miss)
		}
	}
	switch w.kind {
	case wantForward:
		switch {
		case !ofContainer(m):
			o.add(rejectedValid, "request %d got %d %.80q", nth, m.status, m.body)
		case scripted:
			o.judgeScripted(list, m, nth)
		case !w.allows(m.status) || len(w.statuses) == 0 && m.status != http.StatusOK:
			o.add(rejectedValid, "request %d got %d of the container", nth, m.status)
		}
	case wantEither:
		if !ofContainer(m) && !w.allows(m.status) {
			o.add(wrongStatus, "request %d got %d", nth, m.status)
		}
	case wantReject, wantGate, wantBreak, wantFault:
		if ofContainer(m) && m.status < 500 && m.status != http.StatusBadRequest {
			o.add(lenient, "message %d was forwarded: %d", nth, m.status)
		} else if ofContainer(m) || !w.allows(m.status) {
			o.add(wrongStatus, "request %d got %d %.80q", nth, m.status, m.body)
		}
	case wantCut:
		if ofContainer(m) {
			o.add(unsafe, "a truncated response looks complete to the client")
		} else if m.status != http.StatusBadGateway {
			o.add(wrongStatus, "request %d got %d %.80q", nth, m.status, m.body)
		}
	case wantTunnel:
		if m.status != http.StatusSwitchingProtocols {
			o.add(rejectedValid, "request %d got %d %.80q, not a tunnel", nth, m.status, m.body)
		} else if string(list.tunnel) != o.raw {
			o.add(unfaithful, "the tunnel delivered %.80q", list.tunnel)
		}
	}
}

// judgeScripted compares a forwarded response with the container's.
func (o *outcome) judgeScripted(list responseList, got message, nth int) {
	request := message{method: methodOf(o.methods, nth), version: "HTTP/1.1"}
	if nth < len(o.expected) {
		request = o.expected[nth]
	}
	script := written(o.response)
	closed := len(o.response) > 0 && o.response[len(o.response)-1].kind == stepFinish
	sent := readResponses(script, []string{request.method}, endKindOf(closed))
	if len(sent.finals) == 0 {
		return
	}
	for _, difference := range compareResponses(sent.finals[0], got, request) {
		o.add(unfaithful, "response: %s", difference)
	}
	var wanted, interim []int
	for _, m := range sent.all {
		if m.status >= 200 {
			break
		}
		if request.version != "HTTP/1.0" {
			wanted = append(wanted, m.status)
		}
	}
	for _, m := range list.all {
		if m.status < 200 {
			interim = append(interim, m.status)
		}
	}
	if !slices.Equal(wanted, interim) {
		o.add(unfaithful, "interim responses %v, want %v", interim, wanted)
	}
}

func endKindOf(closed bool) endKind {
	if closed {
		return endClose
	}
	return endNone
}

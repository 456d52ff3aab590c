package hostile

import "slices"

// variant is a way to send a case.
type variant struct {
	name        string
	firstScript string // script of a valid request that is sent first; "" = none
	follower    bool   // another request follows
	slowly      bool
	splitAt     int
}

const (
	validBefore = "GET /{P} HTTP/1.1\r\nHost: honest\r\n\r\n"
	// Larger cases are not sent in small pieces.
	slowLimit  = 2 << 10
	splitLimit = 400
)

// variantsOf returns the variants of a case. The first one is the case itself.
func variantsOf(c *hostileCase, userPort int) []variant {
	all := []variant{{}}
	plain, err := newRun(c, variant{}, 0, userPort)
	if err != nil || c.alone {
		return all
	}
	before := variant{name: "after a valid request", firstScript: validBefore}
	last := plain.request[len(plain.request)-1].kind
	leaves := last == stepFinish || last == stepReset
	if leaves {
		before.firstScript += "{await}"
	}
	all = append(all, before)
	if len(plain.sent)+len(written(plain.response)) <= slowLimit {
		all = append(all, variant{name: "byte by byte", slowly: true})
	}
	if c.testsResponse() {
		return all
	}
	if !leaves {
		all = append(all, variant{name: "before another request", follower: true})
	}
	if c.splits && len(plain.sent) <= splitLimit {
		for at := 1; at < len(plain.sent); at++ {
			all = append(all, variant{name: "in two pieces", splitAt: at})
		}
	}
	return all
}

// lastScript returns a script that sends one more request when the case has been sent, or ""
// if the variant sends no more.
func (v variant) lastScript(c *hostileCase) string {
	if !v.follower {
		return ""
	}
	token := "{K}"
	if c.closes || c.smuggling && !keepsGoing(c.wants) {
		token = "{S}"
	}
	return "GET /" + token + " HTTP/1.1\r\nHost: follower\r\n\r\n"
}

// expectations returns the expectations for all requests of the variant, in the order in
// which they are sent. The expectations for the case itself are in the parameter
// caseWants. A request before the case adds one. A request after the case adds one only
// if the gate may serve it. The parameter closing says that the gate closes the
// connection after the case.
func (v variant) expectations(caseWants []want, closing bool) []want {
	all := slices.Clone(caseWants)
	if v.firstScript != "" {
		all = append([]want{{kind: wantForward}}, all...)
	}
	if last := caseWants[len(caseWants)-1].kind; v.follower && keepsGoing(caseWants) && !closing {
		if last != wantEither {
			last = wantForward
		}
		all = append(all, want{kind: last})
	}
	return all
}

// keepsGoing reports whether the gate may serve another request on the connection of a
// case with these expectations.
func keepsGoing(wants []want) bool {
	switch wants[len(wants)-1].kind {
	case wantForward, wantGate, wantEither:
		return true
	}
	return false
}

package hostile

import "fmt"

type findingKind string

const (
	unsafe        findingKind = "unsafe"         // framing that parsers read differently, or mixed-up responses
	hang          findingKind = "hang"           // a late or missing response or close
	died          findingKind = "died"           // the process ended, or printed a race or a panic
	rejectedValid findingKind = "rejected-valid" // a valid message was not forwarded
	lenient       findingKind = "lenient"        // an invalid message was forwarded, with framing on which all parsers agree
	wrongStatus   findingKind = "wrong-status"   // rejected, but with the wrong status
	notClosed     findingKind = "not-closed"     // a connection stayed open after a fault
	unfaithful    findingKind = "unfaithful"     // forwarded, but changed
	nextFailed    findingKind = "next-failed"    // the next valid request failed
)

var findingKinds = []findingKind{unsafe, hang, died, rejectedValid, lenient, wrongStatus, notClosed, unfaithful, nextFailed}

type finding struct {
	kind findingKind
	text string
}

func (o *outcome) add(kind findingKind, format string, args ...any) {
	o.findings = append(o.findings, finding{kind, fmt.Sprintf(format, args...)})
}

func count(all []*outcome) map[findingKind]int {
	n := map[findingKind]int{}
	for _, o := range all {
		had := map[findingKind]bool{}
		for _, v := range o.findings {
			if !had[v.kind] {
				n[v.kind]++
				had[v.kind] = true
			}
		}
	}
	return n
}

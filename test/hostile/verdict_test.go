package hostile

import "fmt"

type verdictKind string

const (
	unsafe        verdictKind = "unsafe"         // framing that parsers read differently, or mixed-up responses
	hang          verdictKind = "hang"           // a late or missing response or close
	died          verdictKind = "died"           // the process ended, or printed a race or a panic
	rejectedValid verdictKind = "rejected-valid" // a valid message was not forwarded
	lenient       verdictKind = "lenient"        // an invalid message was forwarded, with framing on which all parsers agree
	wrongStatus   verdictKind = "wrong-status"   // rejected, but with the wrong status
	notClosed     verdictKind = "not-closed"     // a connection stayed open after a fault
	unfaithful    verdictKind = "unfaithful"     // forwarded, but changed
	nextFailed    verdictKind = "next-failed"    // the next valid request failed
)

var verdictKinds = []verdictKind{unsafe, hang, died, rejectedValid, lenient, wrongStatus, notClosed, unfaithful, nextFailed}

type verdict struct {
	kind verdictKind
	text string
}

func (o *outcome) add(kind verdictKind, format string, args ...any) {
	o.verdicts = append(o.verdicts, verdict{kind, fmt.Sprintf(format, args...)})
}

func count(all []*outcome) map[verdictKind]int {
	n := map[verdictKind]int{}
	for _, o := range all {
		had := map[verdictKind]bool{}
		for _, v := range o.verdicts {
			if !had[v.kind] {
				n[v.kind]++
				had[v.kind] = true
			}
		}
	}
	return n
}

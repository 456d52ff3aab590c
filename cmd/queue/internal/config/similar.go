package config

import (
	"math/bits"
	"slices"
	"strings"
)

// word is a name to compare.
type word struct {
	text    string
	letters uint64 // bit set of the letters in text
}

func newWord(text string) word {
	w := word{text: text}
	for i := range len(text) {
		w.letters |= 1 << (text[i] & 63)
	}
	return w
}

// closest returns the index of the known word with the least distance from w. The
// distance must be at most 2. For a known word with fewer letters than the parameter
// shortLen, it must be at most 1. The result is -1 if no word is close enough.
func (w word) closest(known []word, shortLen int) int {
	found, best := -1, 3
	for i, k := range known {
		most := min(2, best-1)
		if len(k.text) < shortLen {
			most = min(1, most)
		}
		// Reject most words without computing the distance. Each edit changes at most
		// two bits of the letters: one for the old letter, and one for the new letter.
		if bits.OnesCount64(w.letters^k.letters) > 2*most || max(len(w.text)-len(k.text), len(k.text)-len(w.text)) > most {
			continue
		}
		if d := distance(w.text, k.text); d <= most {
			found, best = i, d
		}
	}
	return found
}

// distance returns the Damerau-Levenshtein distance: the number of inserted, removed,
// replaced or swapped letters.
func distance(a, b string) int {
	above, row := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := above
		above, row = row, make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			row[j+1] = above[j]
			if a[i] != b[j] {
				row[j+1] = 1 + min(above[j], above[j+1], row[j])
			}
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
	}
	return row[len(b)]
}

// knativeVariables are variables that Knative sets in every pod, and that users outside
// Knative hardly set. SERVING_LOGGING_LEVEL and SERVING_POD, for example, are useful
// without Knative too.
var knativeVariables = []string{"SERVING_NAMESPACE", "SERVING_SERVICE", "SERVING_CONFIGURATION", "SERVING_REVISION", "SERVING_LOGGING_CONFIG"}

// readNames warns about variables that are probably misspelt settings, and detects
// Knative.
func (l *loader) readNames(names []string) {
	var known []word
	own := make(map[string]bool)
	for i := range l.settings {
		s := &l.settings[i]
		for name := range strings.FieldsSeq(s.names) {
			own[name] = true
			if !strings.HasPrefix(s.help, noEffect) {
				known = append(known, newWord(name))
			}
		}
	}
	for _, name := range names {
		text, _ := l.lookup(name)
		if isServiceLink(name, text) {
			continue
		}
		l.Knative = l.Knative || slices.Contains(knativeVariables, name)
		if own[name] || text == "" {
			continue
		}
		if i := newWord(variableLike(name)).closest(known, 12); i >= 0 {
			l.warn("%s is not a setting: did you mean %s?", name, known[i].text)
		}
	}
}

// isServiceLink reports whether a variable is a service link of Kubernetes, such as
// WEB_PORT=tcp://10.0.0.1:80, WEB_SERVICE_HOST and WEB_PORT_80_TCP_ADDR.
func isServiceLink(name, text string) bool {
	_, port, _ := strings.Cut(name, "_PORT_")
	return isLink(text) || strings.HasSuffix(name, "_SERVICE_HOST") || strings.Contains(name, "_SERVICE_PORT") ||
		port != "" && port[0] >= '0' && port[0] <= '9'
}

func isLink(text string) bool {
	scheme, _, ok := strings.Cut(text, "://")
	return ok && (scheme == "tcp" || scheme == "udp" || scheme == "sctp")
}

//go:build !race

package requestlog

import (
	"bytes"
	"strings"
	"testing"
)

func TestALineAboveTheLimitIsLost(t *testing.T) {
	var out bytes.Buffer
	var faults []error
	text := `{{range 99999999999}}` + strings.Repeat("x", 64<<10) + `{{end}}`
	l, err := New(Config{Template: text, Writer: &out, Failed: func(err error) { faults = append(faults, err) }})
	if err != nil {
		t.Fatal(err)
	}
	l.Begin(&testHead).End(testResult)
	closed(t, l)
	if out.Len() > 0 || l.Dropped() != 1 || len(faults) != 1 || !strings.Contains(faults[0].Error(), "more than 16 MiB") {
		t.Errorf("wrote %.80q, %d dropped, errors %v", out.String(), l.Dropped(), faults)
	}
}

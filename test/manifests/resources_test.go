package manifests

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// measured returns the gate's value in a row of the README's table.
func measured(t *testing.T, row, unit string) float64 {
	t.Helper()
	m := regexp.MustCompile(`(?m)^\| ` + regexp.QuoteMeta(row) + ` \| ([0-9.]+) ` + unit + ` \|`).FindStringSubmatch(read(t, "../../README.md"))
	if m == nil {
		t.Fatalf("README.md has no figure in %s for %q", unit, row)
	}
	value, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// quantity returns a resource quantity in thousandths of a processor, or in MiB.
func quantity(t *testing.T, resources map[string]any, kind, name, unit string) float64 {
	t.Helper()
	text, _ := resources[kind].(map[string]any)[name].(string)
	value, err := strconv.ParseFloat(strings.TrimSuffix(text, unit), 64)
	if err != nil || !strings.HasSuffix(text, unit) {
		t.Fatalf("%s of %s: %q is not in %s", kind, name, text, unit)
	}
	return value
}

// The requested CPU must suffice for 1,000 requests per second. The requested memory
// must be two to four times the memory of an idle gate. The memory limit must suffice
// for 1,000 concurrent requests: 16 MiB for the process, 16 MiB for long heads, 8 MiB
// for bodies, and 24 KiB for each request. These may use three quarters of the limit,
// because the rest is for the kernel's socket buffers.
func TestTheGatesResourcesFitTheMeasuredFigures(t *testing.T) {
	perRequest := measured(t, "CPU per request, keep-alive GET, 64 connections", "µs")
	idle := measured(t, "RSS, idle", "MiB")
	const atOnce = (16 + 16 + 8 + 1000*24.0/1024) / 0.75
	for _, container := range gates(t) {
		r := container["resources"].(map[string]any)
		if n := quantity(t, r, "requests", "cpu", "m") * 1000 / perRequest; n < 1000 {
			t.Errorf("the request of CPU is enough for %.0f requests a second", n)
		}
		if mem := quantity(t, r, "requests", "memory", "Mi"); mem < 2*idle || mem > 4*idle {
			t.Errorf("the request of memory is %v MiB, %v MiB when idle", mem, idle)
		}
		if mem := quantity(t, r, "limits", "memory", "Mi"); mem < atOnce {
			t.Errorf("the limit of memory is %v MiB, 1,000 requests at once take %.0f", mem, atOnce)
		}
	}
}

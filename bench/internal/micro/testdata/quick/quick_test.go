package quick

import (
	"os"
	"strconv"
	"testing"
)

// BenchmarkGiven reports the number in the environment variable QUICK_COST as its cost,
// in the unit "given/op".
func BenchmarkGiven(b *testing.B) {
	cost, err := strconv.ParseFloat(os.Getenv("QUICK_COST"), 64)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(cost, "given/op")
}

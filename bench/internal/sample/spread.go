package sample

import (
	"math"
	"slices"
)

// Spread describes a handful of values. The quartiles are those of linear
// interpolation between order statistics (Hyndman and Fan 1996, type 7).
type Spread struct {
	N                        int
	Min, Q1, Median, Q3, Max float64
}

// IQR is the interquartile range, Q3 - Q1.
func (s Spread) IQR() float64 { return s.Q3 - s.Q1 }

// SpreadOf returns the spread of values, which it does not change. Of no values
// N is zero and the rest NaN.
func SpreadOf(values []float64) Spread {
	s := slices.Sorted(slices.Values(values))
	if len(s) == 0 {
		nan := math.NaN()
		return Spread{Min: nan, Q1: nan, Median: nan, Q3: nan, Max: nan}
	}
	return Spread{
		N:      len(s),
		Min:    s[0],
		Q1:     sortedQuantile(s, 0.25),
		Median: sortedQuantile(s, 0.5),
		Q3:     sortedQuantile(s, 0.75),
		Max:    s[len(s)-1],
	}
}

// Median returns the median of values, NaN if there are none.
func Median(values []float64) float64 { return SpreadOf(values).Median }

func sortedQuantile(s []float64, q float64) float64 {
	at := q * float64(len(s)-1)
	i := int(at)
	if i+1 >= len(s) {
		return s[len(s)-1]
	}
	return s[i] + (at-float64(i))*(s[i+1]-s[i])
}

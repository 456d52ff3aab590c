package metrics

import (
	"math"
	"math/bits"
	"slices"
)

// scale divides the values of a histogram into cells. Each bucket bound of each layout
// is also a cell bound, so one addition counts a value for all layouts.
type scale struct {
	perUnit float64 // number of recorded integers per displayed unit
	bounds  []int64 // inclusive upper bounds of all cells except the last
	first   [512]uint8

	schema int32 // the native bucket k ends at 2^(k/2^schema) displayed units
	lowest int32 // index of the zero bucket, which includes all lower native buckets
	native []int // native[i] is the index of the last cell in the native bucket lowest+i
}

// view is a layout of classic buckets.
type view struct {
	perUnit float64
	les     []float64
	cuts    []int // the bucket le=les[i] consists of the cells 0 to cuts[i]
}

// newScale returns a scale whose cells fit all of the buckets: the native buckets of the
// schema with the indexes lowest to highest, and the classic buckets of every layout. A
// layout is a list of bucket bounds in displayed units, for example seconds. A histogram
// records integers, for example nanoseconds. The parameter perUnit is the number of these
// integers in one displayed unit, in this example 1e9.
func newScale(perUnit float64, schema, lowest, highest int32, layouts ...[]float64) *scale {
	s := &scale{perUnit: perUnit, schema: schema, lowest: lowest}
	for _, layout := range layouts {
		for _, le := range layout {
			s.bounds = append(s.bounds, int64(math.Round(le*perUnit)))
		}
	}
	ends := make([]int64, highest-lowest+1)
	for i := range ends {
		ends[i] = int64(s.nativeEnd(lowest+int32(i)) * perUnit)
	}
	s.bounds = append(s.bounds, ends...)
	slices.Sort(s.bounds)
	s.bounds = slices.Compact(s.bounds)
	if len(s.bounds) >= math.MaxUint8 {
		panic("BUG: a scale with more cells than a byte can number")
	}
	s.native = make([]int, len(ends))
	for i, end := range ends {
		s.native[i] = s.endOf(end)
	}
	cell := 0
	for key := range s.first {
		shift, top := key>>3, int64(key&7)
		if shift > 60 || shift > 0 && top < 4 {
			continue // the method cell never reads this element
		}
		for cell < len(s.bounds) && s.bounds[cell] < top<<shift {
			cell++
		}
		s.first[key] = uint8(cell)
	}
	return s
}

// nativeEnd returns the end of the native bucket with index k, in displayed units.
func (s *scale) nativeEnd(k int32) float64 {
	return math.Exp2(float64(k) / float64(int(1)<<s.schema))
}

// endOf returns the cell of a value, by binary search.
func (s *scale) endOf(v int64) int {
	i, _ := slices.BinarySearch(s.bounds, v)
	return i
}

// cell returns the same result as endOf in less time. The length of v in bits and its
// three highest bits select an element of s.first. This element is the first cell that is
// possible for v, and the search starts there.
func (s *scale) cell(v int64) int {
	u := uint64(max(v, 0))
	shift := max(bits.Len64(u)-3, 0)
	i := int(s.first[uint(shift)<<3|uint(u>>shift)])
	for i < len(s.bounds) && v > s.bounds[i] {
		i++
	}
	return i
}

// view returns a view that has a classic bucket for each bound in les. The scale must
// have each of these bounds. A bound times perUnit is a recorded integer. For example, if
// the scale records nanoseconds and the bounds are in milliseconds, perUnit is 1e6.
func (s *scale) view(perUnit float64, les []float64) *view {
	v := &view{perUnit: perUnit, les: les}
	for _, le := range les {
		bound := int64(math.Round(le * perUnit))
		i, known := slices.BinarySearch(s.bounds, bound)
		if !known {
			panic("BUG: a view of a bound that is none of the scale's")
		}
		v.cuts = append(v.cuts, i)
	}
	return v
}

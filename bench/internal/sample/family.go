package sample

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
)

// FileName is the name of the record in a run's directory.
const FileName = "samples.jsonl"

// sized matches the name of a scenario that ends in a size: "keepalive-64",
// "download-1KB", "upload-100MiB".
var sized = regexp.MustCompile(`^(.+)-(\d+)(k|K|M|B|KB|MB|GB|KiB|MiB|GiB)?$`)

var sizeFactor = map[string]float64{
	"": 1, "B": 1,
	"k": 1e3, "K": 1e3, "KB": 1e3, "M": 1e6, "MB": 1e6, "GB": 1e9,
	"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30,
}

// Size splits the name of a scenario that ends in a size: scenarios of one stem
// are the same work at growing sizes (connections, bytes, places). bytes says
// that the size was written with a unit of bytes.
func Size(scenario string) (stem string, size float64, bytes, ok bool) {
	m := sized.FindStringSubmatch(scenario)
	if m == nil {
		return scenario, 0, false, false
	}
	n, err := strconv.ParseFloat(m[2], 64)
	if err != nil || n == 0 {
		return scenario, 0, false, false
	}
	unit := m[3]
	return m[1], n * sizeFactor[unit], unit != "" && unit[len(unit)-1] == 'B', true
}

// Family is a stem that was measured at several sizes.
type Family struct {
	Stem      string
	Bytes     bool
	Sizes     []float64 // ascending
	Scenarios []string  // one for each size
}

// Families returns the stems with at least least sizes, in the order in which
// they first appear.
func (run *Run) Families(least int) []Family {
	var families []Family
	for _, name := range run.Scenarios() {
		stem, _, bytes, ok := Size(name)
		if !ok {
			continue
		}
		i := slices.IndexFunc(families, func(f Family) bool { return f.Stem == stem })
		if i < 0 {
			i = len(families)
			families = append(families, Family{Stem: stem, Bytes: bytes})
		}
		families[i].Scenarios = append(families[i].Scenarios, name)
	}
	families = slices.DeleteFunc(families, func(f Family) bool { return len(f.Scenarios) < least })
	for i := range families {
		f := &families[i]
		slices.SortStableFunc(f.Scenarios, func(a, b string) int {
			_, sa, _, _ := Size(a)
			_, sb, _, _ := Size(b)
			return cmp.Compare(sa, sb)
		})
		for _, name := range f.Scenarios {
			_, size, _, _ := Size(name)
			f.Sizes = append(f.Sizes, size)
		}
	}
	return families
}

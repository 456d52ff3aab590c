package orca

import (
	"cmp"
	"math"
	"slices"
)

// Names of header fields, in lower case.
const (
	FormatHeader = "endpoint-load-metrics-format" // request field: requested format of the report
	TextHeader   = "endpoint-load-metrics"        // response field: TEXT or JSON, then the report
	BinaryHeader = "endpoint-load-metrics-bin"    // response field: protobuf in base64
)

// Format is the form of a report in a header field.
type Format uint8

// The formats.
const (
	None   Format = iota
	Text          // TEXT name=value,name=value
	JSON          // JSON {"name":value}
	Binary        // protobuf
)

// ParseFormat parses FormatHeader, ignoring case. Unknown values yield None.
func ParseFormat(value []byte) Format {
	switch {
	case equalFold(value, "text"):
		return Text
	case equalFold(value, "json"):
		return JSON
	case equalFold(value, "bin"):
		return Binary
	}
	return None
}

func equalFold(b []byte, lower string) bool {
	if len(b) != len(lower) {
		return false
	}
	for i := range b {
		if b[i]|0x20 != lower[i] {
			return false
		}
	}
	return true
}

// Metric is an entry of one of the maps RequestCost, Utilization and Named of a Report.
type Metric struct {
	Name  string
	Value float64
}

// Report is a load report. A scalar of 0 counts as absent, as in proto3. All values are
// finite.
type Report struct {
	CPUUtilization         float64
	MemUtilization         float64
	ApplicationUtilization float64
	RPS                    float64 // rps_fractional: requests per second
	EPS                    float64 // errors per second

	RequestCost []Metric
	Utilization []Metric
	Named       []Metric // named_metrics
}

// scalar is a field of a Report with its number in protobuf.
type scalar struct {
	number uint8
	name   string
	get    func(*Report) *float64
}

// scalars are the fields of type double of OrcaLoadReport, without the deprecated field
// rps (3).
var scalars = [...]scalar{
	{1, "cpu_utilization", func(r *Report) *float64 { return &r.CPUUtilization }},
	{2, "mem_utilization", func(r *Report) *float64 { return &r.MemUtilization }},
	{9, "application_utilization", func(r *Report) *float64 { return &r.ApplicationUtilization }},
	{6, "rps_fractional", func(r *Report) *float64 { return &r.RPS }},
	{7, "eps", func(r *Report) *float64 { return &r.EPS }},
}

// metricMap is a field of a Report of type map<string, double>.
type metricMap struct {
	number uint8
	name   string
	get    func(*Report) *[]Metric
}

var metricMaps = [...]metricMap{
	{4, "request_cost", func(r *Report) *[]Metric { return &r.RequestCost }},
	{5, "utilization", func(r *Report) *[]Metric { return &r.Utilization }},
	{8, "named_metrics", func(r *Report) *[]Metric { return &r.Named }},
}

// Merge copies to r the values of o that are absent from r.
func (r *Report) Merge(o *Report) {
	for _, s := range scalars {
		*s.get(r) = cmp.Or(*s.get(r), *s.get(o))
	}
	for _, m := range metricMaps {
		for _, metric := range *m.get(o) {
			add(m.get(r), metric)
		}
	}
}

// add appends m to the slice, unless the slice already has a metric with this name. It
// reports whether it appended m.
func add(all *[]Metric, m Metric) bool {
	if slices.ContainsFunc(*all, func(o Metric) bool { return o.Name == m.Name }) {
		return false
	}
	*all = append(*all, m)
	return true
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

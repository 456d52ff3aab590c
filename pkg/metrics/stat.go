package metrics

import (
	"encoding/binary"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// MaxStatBytes is the maximum size in bytes of a Stat that the autoscaler reads.
const MaxStatBytes = 336

// maxPodNameBytes is the maximum length of a pod name in Kubernetes. A Stat with such a
// name has at most 301 bytes: 256 for the name with its tag and its length, and 9 for
// each of the five numbers.
const maxPodNameBytes = 253

// Stat has the values that Knative's autoscaler reads from a pod, in the order of the
// protobuf field numbers. The autoscaler sets the seventh field, the timestamp.
type Stat struct {
	PodName                          string
	AverageConcurrentRequests        float64
	AverageProxiedConcurrentRequests float64
	RequestCount                     float64 // requests per second, including proxied ones
	ProxiedRequestCount              float64 // proxied requests per second
	ProcessUptime                    float64 // in seconds
}

// NewStat returns the Stat of the last window that is complete at the time now. The
// parameter now is also the uptime of the process, so the clock that c uses must have
// started at 0 with the process.
func NewStat(pod string, c *Counting, now time.Duration) Stat {
	a := c.LastWindow(now)
	return Stat{pod, a.Concurrency, a.ProxiedConcurrency, a.Arrivals, a.ProxiedArrivals, now.Seconds()}
}

// Wire types of protobuf.
const (
	wireFixed64 = 1
	wireBytes   = 2
)

// AppendProto appends s as protobuf, in at most MaxStatBytes bytes. It omits fields
// that are 0, as proto3 does. It truncates the pod name to 253 bytes and removes
// invalid UTF-8.
func (s *Stat) AppendProto(dst []byte) []byte {
	if name := podName(s.PodName); name != "" {
		dst = append(dst, 1<<3|wireBytes)
		dst = binary.AppendUvarint(dst, uint64(len(name)))
		dst = append(dst, name...)
	}
	for i, v := range [...]float64{
		s.AverageConcurrentRequests, s.AverageProxiedConcurrentRequests,
		s.RequestCount, s.ProxiedRequestCount, s.ProcessUptime,
	} {
		if v != 0 {
			dst = append(dst, byte(i+2)<<3|wireFixed64)
			dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(v))
		}
	}
	return dst
}

func podName(name string) string {
	name = strings.ToValidUTF8(name, "")
	if len(name) <= maxPodNameBytes {
		return name
	}
	end := maxPodNameBytes
	for !utf8.RuneStart(name[end]) {
		end--
	}
	return name[:end]
}

// Identity names the pod in labels. Any field may be empty.
type Identity struct {
	Namespace     string
	Service       string
	Configuration string
	Revision      string
	Pod           string

	ServiceName string // replaces Service, Configuration and Revision in service_name of target_info
}

var statText = []struct {
	Metric
	value func(*Stat) float64
}{
	{Metric{"queue_requests_per_second", Gauge, "requests/s", statLabels,
		"Requests that arrived per second, over the last full second."},
		func(s *Stat) float64 { return s.RequestCount }},
	{Metric{"queue_proxied_operations_per_second", Gauge, "requests/s", statLabels,
		"Requests proxied by the activator that arrived per second, over the last full second."},
		func(s *Stat) float64 { return s.ProxiedRequestCount }},
	{Metric{"queue_average_concurrent_requests", Gauge, "requests", statLabels,
		"Average number of requests between arrival and end, including waiting requests, over the last full second."},
		func(s *Stat) float64 { return s.AverageConcurrentRequests }},
	{Metric{"queue_average_proxied_concurrent_requests", Gauge, "requests", statLabels,
		"Average number of requests proxied by the activator between arrival and end, including waiting requests, over the last full second."},
		func(s *Stat) float64 { return s.AverageProxiedConcurrentRequests }},
	{Metric{"process_uptime", Gauge, "seconds", statLabels,
		"Time since the gate started."},
		func(s *Stat) float64 { return s.ProcessUptime }},
}

var statLabels = []string{"destination_namespace", "destination_configuration", "destination_revision", "destination_pod"}

// AppendText appends s in Prometheus' text format 0.0.4.
func (s *Stat) AppendText(dst []byte, id Identity) []byte {
	const separators = "{,,,"
	for _, m := range statText {
		dst = append(dst, "# HELP "+m.Name+" "+m.Help+"\n# TYPE "+m.Name+" gauge\n"+m.Name...)
		for i, value := range [...]string{id.Namespace, id.Configuration, id.Revision, id.Pod} {
			dst = append(dst, separators[i])
			dst = append(dst, statLabels[i]+`="`...)
			dst = append(dst, labelEscapes.Replace(strings.ToValidUTF8(value, "\uFFFD"))...)
			dst = append(dst, '"')
		}
		dst = append(dst, "} "...)
		dst = strconv.AppendFloat(dst, m.value(s), 'g', -1, 64)
		dst = append(dst, '\n')
	}
	return dst
}

var labelEscapes = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

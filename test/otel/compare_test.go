package otel

import (
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// knative is Knative's environment for its sidecar, with shorter delays. Only
// queue-proxy's SDK reads OTEL_BSP_*.
var knative = map[string]string{
	"CONTAINER_CONCURRENCY": "0", "QUEUE_SERVING_PORT": "8012", "QUEUE_SERVING_TLS_PORT": "8112", "USER_PORT": "8080", "REVISION_TIMEOUT_SECONDS": "300",
	"SERVING_LOGGING_CONFIG": "", "SERVING_LOGGING_LEVEL": "info", "SERVING_NAMESPACE": "shop", "SERVING_SERVICE": "web", "SERVING_CONFIGURATION": "web",
	"SERVING_REVISION": "web-00001", "SERVING_POD": "web-00001-pod", "SERVING_POD_IP": "127.0.0.1", "POD_NAME": "web-00001-pod", "SYSTEM_NAMESPACE": "knative-serving",
	"OTEL_BSP_SCHEDULE_DELAY": "100", "OTEL_BSP_MAX_QUEUE_SIZE": "8192", "DRAIN_QUIET_SECONDS": "0",
}

// The test compares the gate with queue-proxy in each environment. Some differences
// exist in every environment, and are left out of the comparison.
// implementationHeaders, resourceOf and absent define them.
func TestTheGateExportsAsQueueProxyDoesInTheSameEnvironment(t *testing.T) {
	t.Parallel()
	for _, e := range environments() {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			s := e.spec
			s.Certificates = certificates
			all := maps.Clone(knative)
			all["PATH"], all["HOME"] = os.Getenv("PATH"), os.Getenv("HOME")
			maps.Copy(all, e.set)
			for name, value := range all {
				s.Environment = append(s.Environment, name+"="+strings.ReplaceAll(value, "CERTIFICATES", certificates))
			}
			slices.Sort(s.Environment)
			s.Binary = proxyBinary
			theirs := observe(t, s)
			s.Binary = gateBinary
			ours := observe(t, s)
			compare(t, e, theirs, ours)
			if t.Failed() && theirs.Fields["start"] != ours.Fields["start"] {
				t.Logf("queue-proxy's log:\n%s\nthe gate's log:\n%s", theirs.Stderr, ours.Stderr)
			}
		})
	}
}

func compare(t *testing.T, e environment, theirs, ours observation) {
	known := maps.Clone(e.differs)
	names := map[string]bool{}
	for _, o := range []observation{theirs, ours} {
		for name := range o.Fields {
			names[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		their, our := theirs.Fields[name], ours.Fields[name]
		isSame := their == our
		if name == "metrics: instruments" {
			their, our, isSame = missingInstruments(their, our)
		}
		want, isKnown := known[name]
		delete(known, name)
		switch {
		case !isKnown && !isSame:
			t.Errorf("%s\nqueue-proxy: %s\nthe gate:    %s", name, their, our)
		case isKnown && (isSame || !matches(their, want.theirs) || !matches(our, want.ours)):
			t.Errorf("%s is not the documented difference\nqueue-proxy: %s\n       want: %s\nthe gate:    %s\n       want: %s", name, their, want.theirs, our, want.ours)
		}
	}
	for name := range known {
		t.Errorf("%s: neither has it", name)
	}
	compareShares(t, e, theirs, ours)
}

// something matches every value except "".
const something = "*"

func matches(got, want string) bool { return got == want || want == something && got != "" }

// absent is an instrument that only queue-proxy exports. The gate leaves it out by
// design, because its values equal those of http.server.request.body.size.
const absent = "go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp http.client.request.body.size By Histogram"

// missingInstruments finds the instruments that queue-proxy sent and the gate did not.
// Each parameter lists the instruments of one proxy, one per line. The first result
// (their) lists the missing instruments, but never the one in the constant absent. The
// second result (our) is empty, because the gate may send more instruments than
// queue-proxy. The third result (isSame) is true if no instrument is missing.
//
// If one of the parameters is empty, missingInstruments returns both unchanged. The
// result isSame is then true if queue-proxy sent no instruments.
func missingInstruments(theirs, ours string) (their, our string, isSame bool) {
	if theirs == "" || ours == "" {
		return theirs, ours, theirs == ""
	}
	ourLines := strings.Split(ours, "\n")
	missing := slices.DeleteFunc(strings.Split(theirs, "\n"), func(i string) bool { return i == absent || slices.Contains(ourLines, i) })
	return strings.Join(missing, "\n"), "", len(missing) == 0
}

func compareShares(t *testing.T, e environment, theirs, ours observation) {
	n := float64(ours.WithoutParent)
	if n == 0 {
		return
	}
	wantTheirs, wantOurs := e.share, e.share
	if e.shares != nil {
		wantTheirs, wantOurs = e.shares.theirs, e.shares.ours
	}
	for name, c := range map[string]struct {
		got  int
		want float64
	}{"queue-proxy": {theirs.Sampled, wantTheirs}, "the gate": {ours.Sampled, wantOurs}} {
		// The tolerance is six standard deviations of the binomial distribution. A
		// correct sampler exceeds it once in 500 million runs.
		if tolerance := 6 * math.Sqrt(n*c.want*(1-c.want)); math.Abs(float64(c.got)-c.want*n) > tolerance {
			t.Errorf("%s has sampled %d of %.0f requests without a parent, want a share of %v", name, c.got, n, c.want)
		}
	}
}

func file(name string) string { return filepath.Join("CERTIFICATES", name) }

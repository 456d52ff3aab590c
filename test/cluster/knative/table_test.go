package knative

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/queuegate/queuegate/test/cluster"
)

const (
	coldStarts = 5
	// requests, by clients at once, of which the CPU time per request is the mean.
	requests, clients = 20_000, 8
	rollOuts          = 2
)

// figures are what is measured of one sidecar.
type figures struct {
	coldStart      []time.Duration // of the first answer to a service at zero
	idle, loaded   int64           // bytes in memory: before, and after the requests
	cpu            time.Duration   // per request
	complete, lost int             // requests in roll-outs
}

// The two sidecars are measured one after the other: Knative's setting is for
// the whole cluster.
func TestTheTableBesideQueueProxy(t *testing.T) {
	sidecars := []string{"queue", "queuegate"}
	measured := map[string]figures{}
	for _, sidecar := range sidecars {
		t.Run(sidecar, func(t *testing.T) {
			cluster.UseSidecar(t, sidecar)
			measured[sidecar] = measure(t, service{cluster.Namespace(t), "measured"})
		})
	}
	if t.Failed() {
		return
	}
	theirs, ours := measured["queue"], measured["queuegate"]
	var table strings.Builder
	row := func(name, format string, value func(figures) any) {
		fmt.Fprintf(&table, "| %s | "+format+" | "+format+" |\n", name, value(theirs), value(ours))
	}
	fmt.Fprintf(&table, "| in a real pod | queue-proxy | queuegate |\n|---|---|---|\n")
	row(fmt.Sprintf("cold start: first response of a service at zero, median of %d", coldStarts), "%.2f s", func(f figures) any { return slices.Sorted(slices.Values(f.coldStart))[len(f.coldStart)/2].Seconds() })
	row("the same, slowest", "%.2f s", func(f figures) any { return slices.Max(f.coldStart).Seconds() })
	row("memory, idle", "%.1f MiB", func(f figures) any { return float64(f.idle) / (1 << 20) })
	row(fmt.Sprintf("memory after %d requests by %d clients", requests, clients), "%.1f MiB", func(f figures) any { return float64(f.loaded) / (1 << 20) })
	row("CPU per request", "%d µs", func(f figures) any { return f.cpu.Microseconds() })
	row(fmt.Sprintf("requests lost in %d roll-outs under load", rollOuts), "%s", func(f figures) any { return fmt.Sprintf("%d of %d", f.lost, f.complete+f.lost) })
	t.Logf("\n%s", table.String())
	if ours.lost > 0 {
		t.Errorf("lost %d requests", ours.lost)
	}
	if err := cluster.Rewrite("../../../docs/knative.md", "beside queue-proxy", table.String()); err != nil {
		t.Error(err)
	}
}

func measure(t *testing.T, s service) (f figures) {
	s.apply(t, 1, nil)
	for range coldStarts {
		s.idle(t)
		began := time.Now()
		if err := get(http.DefaultClient, ingress, s.host()); err != nil {
			t.Fatal("cold start:", err)
		}
		f.coldStart = append(f.coldStart, time.Since(began))
		t.Logf("cold start: %.2f s", f.coldStart[len(f.coldStart)-1].Seconds())
	}
	// From here on one pod stays.
	s.apply(t, 2, map[string]string{"autoscaling.knative.dev/min-scale": "1"})
	s.scaled(t, func(n int) bool { return n == 1 })
	pod := s.pods(t)[0]
	process := cluster.ProcessOf(t, pod, "queue")
	f.idle = cluster.ResidentMemory(t, process)
	before := cluster.CPUTime(t, process)
	var group sync.WaitGroup
	for range clients {
		group.Go(func() {
			client := &http.Client{Transport: &http.Transport{}}
			for range requests / clients {
				if err := get(client, pod.Status.PodIP+":8012", s.host()); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	f.cpu = (cluster.CPUTime(t, process) - before) / requests
	f.loaded = cluster.ResidentMemory(t, process)

	load := cluster.StartLoad(t, ingress, s.host(), cluster.Kinds()...)
	for i := range rollOuts {
		s.apply(t, 3+i, map[string]string{"autoscaling.knative.dev/min-scale": "2"})
		s.scaled(t, func(n int) bool { return n == 2 })
	}
	f.complete, f.lost = load.Stop(t)
	return f
}

func get(client *http.Client, address, host string) error {
	request, err := http.NewRequest(http.MethodGet, "http://"+address+"/healthz", nil)
	if err != nil {
		return err
	}
	request.Host = host
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %.200s", answer.Status, body)
	}
	return err
}

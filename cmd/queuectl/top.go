package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/queuegate/queuegate/cmd/queuectl/internal/kube"
	"github.com/queuegate/queuegate/cmd/queuectl/internal/top"
)

func newTop() *cobra.Command {
	var k cluster
	var selector string
	var once bool
	port, interval := 9091, time.Second
	c := &cobra.Command{
		Use:   "top [HOST[:PORT] | URL | pod/NAME ...] | -l SELECTOR",
		Short: "Show live figures of gates",
		Long: `Shows requests per second, requests in flight, queue, latency, refusals and readiness with its causes,
from the metrics of one gate or of several. The metrics of pods are read through kubectl; with a selector the list of
pods is updated. Rates and latencies are those of the last 10 s. Without a terminal, or with --once, it prints one
table after one interval, with the rates and latencies of that interval.`,
		Example: "  queuectl top                        # http://127.0.0.1:9091/metrics\n  queuectl top -l app=web -n shop\n  queuectl top pod/web-7d9f --once",
		RunE: func(c *cobra.Command, args []string) error {
			if interval < 100*time.Millisecond {
				return usageError{fmt.Errorf("--interval=%v: want 100ms or more", interval)}
			}
			if selector != "" && len(args) > 0 {
				return usageError{errors.New("want gates, or a selector (-l)")}
			}
			ctx, cancel := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
			defer cancel()
			sources, list, err := findSources(ctx, &k, selector, args, port)
			if err != nil {
				return err
			}
			if out, ok := c.OutOrStdout().(*os.File); !once && ok && term.IsTerminal(int(out.Fd())) && os.Getenv("TERM") != "dumb" {
				return top.NewModel(ctx, sources, list, interval).Run(os.Stdin, out)
			}
			return printOnce(c, sources, interval)
		},
	}
	k.flags(c)
	f := c.Flags()
	f.StringVarP(&selector, "selector", "l", "", "all pods with these labels, for kubectl")
	f.IntVar(&port, "port", port, "port of the metrics; a pod's port named queue-metrics takes precedence")
	f.DurationVar(&interval, "interval", interval, "time between two samples")
	f.BoolVar(&once, "once", false, "print one table and exit")
	return c
}

// findSources returns a source for each requested gate: for the pods that the selector
// matches, or else for each element of gates. A forwarding to a pod lasts until ctx ends
// at the latest. With a selector, findSources also returns a function that looks for
// matching pods again. Without a selector, that function is nil.
func findSources(ctx context.Context, k *cluster, selector string, gates []string, port int) (sources []top.Source, list top.List, err error) {
	ctl := k.kubectl()
	if selector != "" {
		// known has the sources of the previous call of list. The sources of pods that
		// still exist are used again, because a source has the forwarding to its pod.
		known := map[string]top.Source{}
		list = func(now context.Context) ([]top.Source, error) {
			pods, err := ctl.Pods(now, selector)
			if err != nil {
				return nil, err
			}
			found := map[string]top.Source{}
			var sources []top.Source
			for _, pod := range pods {
				metrics := port
				if n, ok := pod.Ports["queue-metrics"]; ok {
					metrics = n
				}
				s, ok := known[pod.Name]
				if !ok {
					s = inPod(ctx, ctl, pod.Name, metrics)
				}
				found[pod.Name] = s
				sources = append(sources, s)
			}
			for name, s := range known {
				if _, ok := found[name]; !ok {
					s.Lost()
				}
			}
			known = found
			return sources, nil
		}
		if sources, err = list(ctx); err == nil && len(sources) == 0 {
			err = fmt.Errorf("no pod with %s is running", selector)
		}
		return sources, list, err
	}
	if len(gates) == 0 {
		gates = []string{fmt.Sprintf("127.0.0.1:%d", port)}
	}
	for _, gate := range gates {
		if pod, ok := strings.CutPrefix(gate, "pod/"); ok {
			sources = append(sources, inPod(ctx, ctl, pod, port))
			continue
		}
		url, err := metricsURL(gate, port)
		if err != nil {
			return nil, nil, usageError{err}
		}
		sources = append(sources, top.NewSource(gate, url))
	}
	return sources, nil, nil
}

// metricsURL completes an address to a URL.
func metricsURL(address string, port int) (string, error) {
	u, err := gateURL(address, port)
	if err != nil {
		return "", err
	}
	if u.Path == "" || u.Path == "/" {
		u = u.ResolveReference(&url.URL{Path: "/metrics"})
	}
	return u.String(), nil
}

// inPod returns a source for a gate in a pod, through kubectl port-forward. It replaces
// a forwarding that has ended or fails, for example after a restart of the pod.
func inPod(ctx context.Context, ctl *kube.Kubectl, pod string, port int) top.Source {
	var mu sync.Mutex
	var f *kube.Forwarding
	return top.Source{
		Name:   pod,
		Client: &http.Client{},
		Reach: func(start context.Context) (string, error) {
			mu.Lock()
			defer mu.Unlock()
			if f == nil || f.HasExited() {
				var err error
				if f, err = ctl.Forward(ctx, start, pod, port); err != nil {
					return "", err
				}
			}
			return metricsURL(f.Address, port)
		},
		Lost: func() {
			mu.Lock()
			defer mu.Unlock()
			if f != nil {
				f.Close()
				f = nil
			}
		},
	}
}

// printOnce takes two samples, an interval apart, and prints a table.
func printOnce(c *cobra.Command, sources []top.Source, interval time.Duration) error {
	var gates []*top.Gate
	for _, s := range sources {
		gates = append(gates, &top.Gate{Source: s})
	}
	for i := range 2 {
		if i > 0 {
			select {
			case <-time.After(interval):
			case <-c.Context().Done():
			}
		}
		for _, g := range gates {
			ctx, cancel := context.WithTimeout(c.Context(), 3*time.Second)
			g.Add(g.Fetch(ctx))
			cancel()
		}
	}
	failed := false
	for _, line := range top.Table(gates, 1000) {
		fmt.Fprintln(c.OutOrStdout(), strings.TrimRight(line, " "))
	}
	for _, g := range gates {
		if g.Err != nil {
			fmt.Fprintf(c.ErrOrStderr(), "%s: %v\n", g.Name, g.Err)
			failed = true
		}
	}
	if failed {
		return errSaid
	}
	return nil
}

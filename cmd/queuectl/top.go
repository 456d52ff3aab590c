package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"

	"github.com/queuegate/queuegate/cmd/queuectl/internal/top"
)

func newTop() *cobra.Command {
	var k cluster
	var selector string
	var once bool
	port, interval := 9091, time.Second
	c := &cobra.Command{
		Use:   "top [HOST[:PORT] | URL | pod/NAME ...] | -l SELECTOR",
		Short: "Show live what gates do",
		Long: `Shows requests per second, concurrency, queue, latency, refusals and readiness with its causes, from the
metrics of one gate or of several; those of pods are read through kubectl. Rates and latencies are those
of the last 10 s. Without a terminal, or with --once, it prints one table.`,
		Example: "  queuectl top                        # http://127.0.0.1:9091/metrics\n  queuectl top -l app=web -n shop\n  queuectl top pod/web-7d9f --once",
		RunE: func(c *cobra.Command, args []string) error {
			if interval < 100*time.Millisecond {
				return usageError{fmt.Errorf("--interval=%v: want 100ms or more", interval)}
			}
			if selector != "" && len(args) > 0 {
				return usageError{errors.New("want gates, or a selector (-l)")}
			}
			ctx, cancel := context.WithCancel(c.Context())
			defer cancel()
			sources, err := findSources(ctx, &k, selector, args, port)
			if err != nil {
				return err
			}
			if out, ok := c.OutOrStdout().(*os.File); !once && ok && isatty.IsTerminal(out.Fd()) {
				_, err := tea.NewProgram(top.NewModel(ctx, sources, interval), tea.WithAltScreen(), tea.WithContext(ctx)).Run()
				return err
			}
			return printOnce(c, sources, interval)
		},
	}
	k.flags(c)
	f := c.Flags()
	f.StringVarP(&selector, "selector", "l", "", "all pods with these labels, for kubectl")
	f.IntVar(&port, "port", port, "port of the metrics; of a pod that names its port queue-metrics, that one")
	f.DurationVar(&interval, "interval", interval, "time between two looks")
	f.BoolVar(&once, "once", false, "print one table and end")
	return c
}

// findSources finds the gates that are asked for, and makes those in pods
// reachable until ctx ends.
func findSources(ctx context.Context, k *cluster, selector string, gates []string, port int) (sources []top.Source, err error) {
	ctl := k.kubectl()
	add := func(name, base string) error {
		u, err := gateURL(base, port)
		if err != nil {
			return usageError{err}
		}
		if u.Path == "" || u.Path == "/" {
			u = u.ResolveReference(&url.URL{Path: "/metrics"})
		}
		sources = append(sources, top.Source{Name: name, URL: u.String(), Client: &http.Client{}})
		return nil
	}
	forward := func(pod string, port int) error {
		address, err := ctl.Forward(ctx, pod, port)
		if err != nil {
			return err
		}
		return add(pod, address)
	}
	if selector != "" {
		pods, err := ctl.Pods(ctx, selector)
		if err != nil {
			return nil, err
		}
		if len(pods) == 0 {
			return nil, fmt.Errorf("no pod with %s runs", selector)
		}
		for _, pod := range pods {
			metrics := port
			if n, ok := pod.Ports["queue-metrics"]; ok {
				metrics = n
			}
			if err := forward(pod.Name, metrics); err != nil {
				return nil, err
			}
		}
		return sources, nil
	}
	if len(gates) == 0 {
		gates = []string{fmt.Sprintf("127.0.0.1:%d", port)}
	}
	for _, gate := range gates {
		if pod, ok := strings.CutPrefix(gate, "pod/"); ok {
			err = forward(pod, port)
		} else {
			err = add(gate, gate)
		}
		if err != nil {
			return nil, err
		}
	}
	return sources, nil
}

// printOnce prints a table of two samples.
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

package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/queuegate/queuegate/cmd/queuectl/internal/ask"
	"github.com/queuegate/queuegate/cmd/queuectl/internal/kube"
)

// cluster has the flags for kubectl.
type cluster struct{ namespace, context, kubeconfig string }

func (k *cluster) flags(c *cobra.Command) {
	f := c.Flags()
	f.StringVarP(&k.namespace, "namespace", "n", "", "namespace, for kubectl")
	f.StringVar(&k.context, "context", "", "context, for kubectl")
	f.StringVar(&k.kubeconfig, "kubeconfig", "", "configuration, for kubectl")
}

func (k *cluster) kubectl() *kube.Kubectl {
	ctl := &kube.Kubectl{}
	for _, flag := range []struct{ name, value string }{{"namespace", k.namespace}, {"context", k.context}, {"kubeconfig", k.kubeconfig}} {
		if flag.value != "" {
			ctl.Flags = append(ctl.Flags, "--"+flag.name+"="+flag.value)
		}
	}
	return ctl
}

func newProbe() *cobra.Command {
	var k cluster
	caller, timeout, port := "kubelet", time.Duration(0), 8012
	c := &cobra.Command{
		Use:   "probe [HOST[:PORT] | URL | pod/NAME]",
		Short: "Probe a gate for its readiness",
		Long: `Sends the readiness probe of kubelet, activator or ingress to a gate. Exit code: 0 if they would take the
response for ready, 1 if not. A pod is reached through kubectl.`,
		Example: "  queuectl probe\n  queuectl probe 10.1.2.3 --as activator\n  queuectl probe https://10.1.2.3:8112\n  queuectl probe pod/web-7d9f -n shop",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usageError{errors.New("want one gate")}
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if ask.Timeout(caller) == 0 {
				return usageError{fmt.Errorf("--as=%q: want %s", caller, strings.Join(ask.Callers, ", "))}
			}
			address := ""
			if len(args) > 0 {
				address = args[0]
			}
			ctx, cancel := context.WithCancel(c.Context())
			defer cancel()
			if pod, ok := strings.CutPrefix(address, "pod/"); ok {
				forwarded, err := k.kubectl().Forward(ctx, ctx, pod, port)
				if err != nil {
					return err
				}
				address = forwarded.Address
			}
			base, err := gateURL(address, port)
			if err != nil {
				return usageError{err}
			}
			if timeout == 0 {
				timeout = ask.Timeout(caller)
			}
			ctx, cancel = context.WithTimeout(ctx, timeout)
			defer cancel()
			return ask.Gate(ctx, base, caller)
		},
	}
	k.flags(c)
	f := c.Flags()
	f.StringVar(&caller, "as", caller, "prober to imitate: "+strings.Join(ask.Callers, ", "))
	f.DurationVar(&timeout, "timeout", 0, "how long to wait for the response (default 1s; 300ms for activator)")
	f.IntVar(&port, "port", port, "port of the gate")
	_ = c.RegisterFlagCompletionFunc("as", cobra.FixedCompletions(ask.Callers, cobra.ShellCompDirectiveNoFileComp))
	return c
}

// gateURL completes an address without scheme, host or port to a URL.
func gateURL(address string, port int) (*url.URL, error) {
	if address == "" {
		address = "127.0.0.1"
	}
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("%q: want a host, host:port, a URL, or pod/NAME", address)
	}
	if u.Port() == "" {
		u.Host += fmt.Sprintf(":%d", port)
	}
	return u, nil
}

// Package kube connects to pods through kubectl.
package kube

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"strings"
	"time"
)

// Kubectl runs kubectl with flags that select cluster and namespace.
type Kubectl struct {
	Path  string // path of the program; "" = kubectl
	Flags []string
}

// Pod is a pod to connect to.
type Pod struct {
	Name, Phase string
	// Ports has the number of each named port of the containers.
	Ports map[string]int
}

func (k *Kubectl) command(ctx context.Context, args ...string) *exec.Cmd {
	path := k.Path
	if path == "" {
		path = "kubectl"
	}
	cmd := exec.CommandContext(ctx, path, append(append([]string{}, k.Flags...), args...)...)
	cmd.WaitDelay = time.Second
	return cmd
}

// Get returns objects of the cluster as JSON.
func (k *Kubectl) Get(ctx context.Context, args ...string) ([]byte, error) {
	cmd := k.command(ctx, append(append([]string{"get"}, args...), "-o", "json")...)
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("kubectl get %s: %w", strings.Join(args, " "), because(err, &complaints))
	}
	return text, nil
}

// Run runs kubectl and returns its output.
func (k *Kubectl) Run(ctx context.Context, args ...string) (string, error) {
	cmd := k.command(ctx, args...)
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	text, err := cmd.Output()
	if err != nil {
		return string(text), fmt.Errorf("kubectl %s: %w", args[0], because(err, &complaints))
	}
	return string(text), nil
}

func because(err error, complaints *bytes.Buffer) error {
	if text := strings.TrimSpace(complaints.String()); text != "" {
		return errors.New(text)
	}
	return err
}

// Pods returns the running pods of a selector.
func (k *Kubectl) Pods(ctx context.Context, selector string) ([]Pod, error) {
	text, err := k.Get(ctx, "pods", "-l", selector)
	if err != nil {
		return nil, err
	}
	var list struct {
		Items []struct {
			Metadata struct{ Name string }
			Status   struct{ Phase string }
			Spec     struct {
				InitContainers, Containers []struct {
					Ports []struct {
						Name          string
						ContainerPort int
					}
				}
			}
		}
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("kubectl get pods: %w", err)
	}
	var pods []Pod
	for _, item := range list.Items {
		p := Pod{item.Metadata.Name, item.Status.Phase, map[string]int{}}
		for _, c := range append(item.Spec.InitContainers, item.Spec.Containers...) {
			for _, port := range c.Ports {
				p.Ports[port.Name] = port.ContainerPort
			}
		}
		if p.Phase == "Running" {
			pods = append(pods, p)
		}
	}
	return pods, nil
}

var forwarding = regexp.MustCompile(`Forwarding from (127\.0\.0\.1:\d+) ->`)

// Forwarding is a local port that is forwarded to a port of a pod.
type Forwarding struct {
	Address string
	cancel  context.CancelFunc
	exited  chan struct{}
}

// HasExited reports whether kubectl has exited, as it does when the pod is deleted.
func (f *Forwarding) HasExited() bool {
	select {
	case <-f.exited:
		return true
	default:
		return false
	}
}

// Close stops the forwarding.
func (f *Forwarding) Close() { f.cancel() }

// Forward forwards a local port to a port of a pod. The forwarding lasts until ctx ends
// or Close is called. Forward waits until the forwarding works. It returns an error if
// kubectl fails, or if the context start ends before the forwarding works.
func (k *Kubectl) Forward(ctx, start context.Context, pod string, port int) (*Forwarding, error) {
	ctx, cancel := context.WithCancel(ctx)
	cmd := k.command(ctx, "port-forward", "pod/"+pod, fmt.Sprintf(":%d", port), "--address", "127.0.0.1")
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	failed := func(err error) error {
		cancel()
		if start.Err() != nil {
			err = errors.New("no response in time")
		}
		return fmt.Errorf("kubectl port-forward pod/%s: %w", pod, because(err, &complaints))
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, failed(err)
	}
	if err := cmd.Start(); err != nil {
		return nil, failed(err)
	}
	began := context.AfterFunc(start, cancel)
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if m := forwarding.FindStringSubmatch(lines.Text()); m != nil && began() {
			f := &Forwarding{m[1], cancel, make(chan struct{})}
			go func() {
				defer close(f.exited)
				// kubectl writes a line for each connection. Read the lines, so that
				// kubectl never blocks on a full pipe.
				_, _ = io.Copy(io.Discard, out)
				_ = cmd.Wait()
			}()
			return f, nil
		}
	}
	if err = cmd.Wait(); err == nil {
		err = errors.New("it exited")
	}
	return nil, failed(err)
}

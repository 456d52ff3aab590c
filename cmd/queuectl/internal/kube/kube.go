// Package kube reaches pods through kubectl, with whatever cluster and
// credentials that has.
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

// Kubectl is a kubectl with the flags that choose cluster and namespace.
type Kubectl struct {
	Path  string // "" = kubectl
	Flags []string
}

// Pod is what there is to know of a pod to reach it.
type Pod struct {
	Name, Phase string
	// Ports are the numbers by the name of containers' ports.
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

// Get returns what kubectl says of objects, as JSON.
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

// Pods lists the pods of a selector that run.
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

// Forwarding is a port of a pod that is reachable here.
type Forwarding struct {
	Address string
	cancel  context.CancelFunc
	ended   chan struct{}
}

// Ended reports that kubectl has given up, as it does when the pod goes.
func (f *Forwarding) Ended() bool {
	select {
	case <-f.ended:
		return true
	default:
		return false
	}
}

// Close ends it.
func (f *Forwarding) Close() { f.cancel() }

// Forward makes a port of a pod reachable until ctx ends or Close. It waits for
// that as long as start lasts.
func (k *Kubectl) Forward(ctx, start context.Context, pod string, port int) (*Forwarding, error) {
	ctx, cancel := context.WithCancel(ctx)
	cmd := k.command(ctx, "port-forward", "pod/"+pod, fmt.Sprintf(":%d", port), "--address", "127.0.0.1")
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	failed := func(err error) error {
		cancel()
		if start.Err() != nil {
			err = errors.New("no answer in time")
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
				defer close(f.ended)
				_, _ = io.Copy(io.Discard, out) // a line for each connection
				_ = cmd.Wait()
			}()
			return f, nil
		}
	}
	if err = cmd.Wait(); err == nil {
		err = errors.New("it ended")
	}
	return nil, failed(err)
}

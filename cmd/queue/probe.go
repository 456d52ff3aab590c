package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/queuegate/queuegate/cmd/queue/internal/config"
)

// question is a probe of one of the platform's probers.
type question struct {
	path, agent, probe string
	timeout            time.Duration // the prober's default
}

var questions = map[string]question{
	"kubelet":   {"/", "kube-probe/queue", "queue", time.Second},
	"activator": {"/healthz", "Knative-Activator-Probe", "queue", 300 * time.Millisecond},
	"ingress":   {"/healthz", "Knative-Ingress-Probe", "probe", time.Second},
}

// probeHash is the hash that an ingress expects in the reply.
const probeHash = "override"

// retryInterval is the time between two probes of a gate that is not ready or not
// reachable.
const retryInterval = 25 * time.Millisecond

// probeGate returns an error unless the gate is ready.
func probeGate(cfg *config.Config) error {
	q := questions[cfg.Probe.As]
	q.timeout = cmp.Or(cfg.Probe.Timeout, q.timeout)
	address := net.JoinHostPort(probeHost(cfg.ListenAddress), strconv.Itoa(cfg.ServingPort))
	end := time.Now().Add(cfg.Probe.Retry)
	for {
		err := q.ask(address)
		if err == nil || time.Until(end) < retryInterval {
			return err
		}
		time.Sleep(retryInterval)
	}
}

// probeHost returns the host to connect to for a listen address.
func probeHost(address string) string {
	if ip := net.ParseIP(address); address == "" || ip.IsUnspecified() {
		return "127.0.0.1"
	}
	return address
}

// ask sends one probe over HTTP/1.1 on a new connection, like the platform's probers.
func (q *question) ask(address string) error {
	deadline := time.Now().Add(q.timeout)
	conn, err := net.DialTimeout("tcp", address, q.timeout)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("no gate listens on %s", address)
	case err != nil:
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(deadline)
	text := "GET " + q.path + " HTTP/1.1\r\nHost: " + address + "\r\nUser-Agent: " + q.agent + "\r\nK-Network-Probe: " + q.probe + "\r\n"
	if q.probe == "probe" {
		text += "K-Network-Hash: " + probeHash + "\r\n"
	}
	if _, err = io.WriteString(conn, text+"Connection: close\r\n\r\n"); err != nil {
		return err
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return q.noResponse(address, err)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<10))
	if err != nil {
		return q.noResponse(address, err)
	}
	return q.judge(response, strings.TrimSpace(string(body)))
}

func (q *question) noResponse(address string, err error) error {
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return fmt.Errorf("no response from %s within %v", address, q.timeout)
	}
	return fmt.Errorf("%s is not a gate: %w", address, err)
}

// judge returns nil if the prober would accept the reply.
func (q *question) judge(response *http.Response, body string) error {
	yes := response.StatusCode == http.StatusOK
	switch reason := response.Header.Get("K-Readiness-Reason"); {
	case !yes && (reason != "" || body != ""):
		return fmt.Errorf("not ready: %d, %s", response.StatusCode, cmp.Or(reason, body))
	case !yes:
		return fmt.Errorf("not ready: %d", response.StatusCode)
	case q.probe == "queue" && body != "queue":
		return errors.New("not ready: the response is not from a gate")
	case q.probe == "probe" && response.Header.Get("K-Network-Hash") != probeHash:
		return errors.New("not ready: the response lacks the requested hash")
	}
	return nil
}

// Package ask sends probes to a gate as kubelet, activator and ingress do.
package ask

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"
)

// Callers are the names of the probers that Gate can imitate.
var Callers = []string{"kubelet", "activator", "ingress"}

// question describes the probe that one of the Callers sends.
type question struct {
	path, agent, probe string
	timeout            time.Duration
}

var questions = map[string]question{
	"kubelet":   {"/", "kube-probe/queuectl", "queue", time.Second},
	"activator": {"/healthz", "Knative-Activator-Probe", "queue", 300 * time.Millisecond},
	"ingress":   {"/healthz", "Knative-Ingress-Probe", "probe", time.Second},
}

const hash = "override"

// Timeout returns the timeout of a prober.
func Timeout(caller string) time.Duration { return questions[caller].timeout }

// Gate sends a probe to the gate at the URL base. The last parameter is the name of the
// prober that Gate imitates (one of Callers). Gate returns an error if that prober would
// not accept the response. It does not verify the gate's certificate, because each pod
// may have its own certificate.
func Gate(ctx context.Context, base *url.URL, caller string) error {
	q, ok := questions[caller]
	if !ok {
		return fmt.Errorf("--as=%q: want %s", caller, strings.Join(Callers, ", "))
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base.JoinPath(q.path).String(), nil)
	if err != nil {
		return err
	}
	request.Header.Set("User-Agent", q.agent)
	request.Header.Set("K-Network-Probe", q.probe)
	if q.probe == "probe" {
		request.Header.Set("K-Network-Hash", hash)
	}
	client := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	response, err := client.Do(request)
	var timeout net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("no gate listens on %s", base.Host)
	case errors.As(err, &timeout) && timeout.Timeout():
		return fmt.Errorf("no response from %s in time", base.Host)
	case err != nil:
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<10))
	if err != nil {
		return err
	}
	return q.judge(response, strings.TrimSpace(string(body)))
}

func (q *question) judge(response *http.Response, body string) error {
	reason := response.Header.Get("K-Readiness-Reason")
	if reason == "" {
		reason = body
	}
	switch {
	case response.StatusCode != http.StatusOK && reason == "":
		return fmt.Errorf("not ready: %d", response.StatusCode)
	case response.StatusCode != http.StatusOK:
		return fmt.Errorf("not ready: %d, %s", response.StatusCode, reason)
	case q.probe == "queue" && body != "queue":
		return errors.New("not ready: the response is not from a gate")
	case q.probe == "probe" && response.Header.Get("K-Network-Hash") != hash:
		return errors.New("not ready: the response lacks the requested hash")
	}
	return nil
}

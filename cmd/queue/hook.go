package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"go.uber.org/zap"
)

// hookMode calls IDLE_HOOK to suspend a server, and WAKE_HOOK to resume it. It retries a
// call until the status of the response is 2xx, or until the next call begins. At most
// one call is in progress at any time.
type hookMode struct {
	idle, wake hook
	// timeout limits each attempt. It also limits how long requests wait for WAKE_HOOK:
	// after this time they are forwarded, even if no attempt has succeeded.
	timeout time.Duration

	// next is closed when another call begins, so that the latest call stops its retries.
	// It is nil before the first call.
	next chan struct{}
	// callDone is closed when the latest call has ended. It is nil before the first call.
	callDone chan struct{}
}

func newHookMode(idle, wake string, timeout time.Duration) *hookMode {
	return &hookMode{idle: hook{"IDLE_HOOK", idle, roundTrip}, wake: hook{"WAKE_HOOK", wake, roundTrip}, timeout: timeout}
}

// roundTrip sends r over a new connection, because the server may close an idle one at
// any time. It does not use http.Client, which would link HTTP/2.
func roundTrip(r *http.Request) (status int, err error) {
	address := net.JoinHostPort(r.URL.Hostname(), cmp.Or(r.URL.Port(), "80"))
	conn, err := new(net.Dialer).DialContext(r.Context(), "tcp", address)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	defer context.AfterFunc(r.Context(), func() { conn.Close() })()
	r.Close = true
	if err := r.Write(conn); err != nil {
		return 0, err
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), r)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, nil
}

// hook is a URL that gets a POST.
type hook struct {
	setting   string
	url       string
	roundTrip func(*http.Request) (status int, err error)
}

func (h *hook) post(timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url, nil)
	if err != nil {
		return err
	}
	status, err := h.roundTrip(r)
	if err == nil && status/100 != 2 {
		err = fmt.Errorf("status %d", status)
	}
	return err
}

// The pause between attempts doubles from firstHookPause to longestHookPause.
const (
	firstHookPause   = 50 * time.Millisecond
	longestHookPause = time.Second
)

// call starts a goroutine that requests the hook h until an attempt succeeds or the next
// call begins. It calls done exactly once, usually when it ends.
//
// If no attempt has succeeded within the time limit, the goroutine logs the last error
// and calls done, and then continues its attempts. A limit of 0 means that the goroutine
// logs and calls done after the first failed attempt.
func (m *hookMode) call(h *hook, limit time.Duration, log *zap.Logger, done func()) {
	previous := m.callDone
	if m.next != nil {
		close(m.next)
	}
	next, callDone := make(chan struct{}), make(chan struct{})
	m.next, m.callDone = next, callDone
	go func() {
		defer close(callDone)
		if previous != nil {
			<-previous // wait until the previous call has ended its attempt
		}
		var mu sync.Mutex
		var last error
		var once sync.Once
		report := func() {
			once.Do(func() {
				mu.Lock()
				defer mu.Unlock()
				if last == nil {
					last = fmt.Errorf("no response for %v", m.timeout)
				}
				log.Warn(h.setting+" fails and is retried", zap.String("url", h.url), zap.Error(last))
				done()
			})
		}
		if limit > 0 {
			defer time.AfterFunc(limit, report).Stop()
		}
		for pause := firstHookPause; ; pause = min(2*pause, longestHookPause) {
			err := h.post(m.timeout)
			if err == nil {
				once.Do(done)
				return
			}
			mu.Lock()
			last = err
			mu.Unlock()
			if limit == 0 {
				report()
			}
			select {
			case <-next:
				once.Do(done)
				return
			case <-time.After(pause):
			}
		}
	}()
}

func (m *hookMode) stops() bool { return false }

// begin wakes the server: an earlier gate may have suspended it.
func (m *hookMode) begin(log *zap.Logger) { m.call(&m.wake, m.timeout, log, func() {}) }

// suspend implements sleepMode. A server whose IDLE_HOOK fails counts as asleep, because
// it may have received the call.
func (m *hookMode) suspend(p *process) <-chan struct{} {
	p.log.Info("the application is idle: calling IDLE_HOOK", zap.Duration("idle", p.sleep.idleTimeout))
	suspended := make(chan struct{})
	m.call(&m.idle, 0, p.log, func() { close(suspended) })
	return suspended
}

func (m *hookMode) suspended(*process) string { return "IDLE_HOOK was called" }

func (m *hookMode) resume(p *process) <-chan error {
	resumed := make(chan error, 1)
	m.call(&m.wake, m.timeout, p.log, func() { resumed <- nil })
	return resumed
}

func (m *hookMode) resumed(*process) (string, []zap.Field) {
	return "requests are forwarded again: WAKE_HOOK was called", nil
}

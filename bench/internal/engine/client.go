package engine

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A Workload is an open loop of streaming chat completions with Poisson arrivals. The
// lengths of prompts and outputs are log-normal. Some clients disconnect.
type Workload struct {
	URL      string // URL of the server, without a path
	Seed     uint64
	Rate     float64 // requests per second
	Duration time.Duration
	// Deadline is the limit for the time to the first token. It is sent in the header
	// x-slo-ttft-ms. 0 = no limit.
	Deadline time.Duration
	// Cancel is the share of clients that disconnect, after an exponentially distributed
	// time with the mean CancelAfter.
	Cancel      float64
	CancelAfter time.Duration
	Prefix      string // prefix of the request ids
}

// A Response is the result of one request of a Workload. Times are readings of package
// clock; 0 = the event did not happen.
type Response struct {
	ID        string
	Status    int // 0 = no response
	Sent      time.Duration
	First     time.Duration // time of the first token
	Completed time.Duration // time at which the whole stream had arrived
	Cancelled time.Duration // time at which the client disconnected
}

// InTime reports whether the request was served in time. The time from sending the
// request to its first token must not exceed the deadline. The stream must also be
// complete, unless the client itself disconnected.
func (r *Response) InTime(deadline time.Duration) bool {
	return r.First > 0 && r.First-r.Sent <= deadline && (r.Completed > 0 || r.Cancelled > 0)
}

// Run sends the requests and returns all responses. After the last request was sent, Run
// waits for responses for at most the duration grace. Then it cancels the unfinished
// requests.
func (w *Workload) Run(ctx context.Context, grace time.Duration) ([]Response, error) {
	if w.Rate <= 0 {
		return nil, errors.New("a workload needs a rate")
	}
	transport := &http.Transport{MaxIdleConns: 4096, MaxIdleConnsPerHost: 4096, DisableCompression: true}
	defer transport.CloseIdleConnections()
	draw := rand.New(rand.NewPCG(w.Seed, 7))
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var mu sync.Mutex
	var all []Response
	var clients sync.WaitGroup
	begun := now()
	for at, n := time.Duration(0), 0; ; n++ {
		at += time.Duration(draw.ExpFloat64() / w.Rate * float64(time.Second))
		if at > w.Duration {
			break
		}
		prompt, cancelAfter := drawPrompt(draw), time.Duration(0)
		if draw.Float64() < w.Cancel {
			cancelAfter = time.Duration(draw.ExpFloat64()*float64(w.CancelAfter)) + time.Millisecond
		}
		select {
		case <-time.After(at - (now() - begun)):
		case <-ctx.Done():
			clients.Wait()
			return nil, ctx.Err()
		}
		id := w.Prefix + strconv.Itoa(n)
		clients.Go(func() {
			r := w.send(ctx, transport, id, prompt, cancelAfter)
			mu.Lock()
			defer mu.Unlock()
			all = append(all, r)
		})
	}
	done := make(chan struct{})
	go func() { clients.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(grace):
		stop()
		<-done
	}
	return all, nil
}

// send sends one request. If cancelAfter is not 0, the client disconnects after that
// time.
func (w *Workload) send(ctx context.Context, transport http.RoundTripper, id string, prompt int, cancelAfter time.Duration) (r Response) {
	r = Response{ID: id, Sent: now()}
	all := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if cancelAfter > 0 {
		defer time.AfterFunc(cancelAfter, cancel).Stop()
	}
	defer func() {
		if r.Completed == 0 && cancelAfter > 0 && ctx.Err() != nil && all.Err() == nil {
			r.Cancelled = r.Sent + cancelAfter
		}
	}()
	text := strings.Repeat("abc ", max(prompt-4, 1)) // the chat template adds four tokens
	body := fmt.Appendf(nil, `{"model":%q,"stream":true,"messages":[{"role":"user","content":%q}]}`, modelName, text)
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, w.URL+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		return r
	}
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("X-Request-Id", id)
	if w.Deadline > 0 {
		q.Header.Set("x-slo-ttft-ms", strconv.FormatInt(w.Deadline.Milliseconds(), 10))
	}
	res, err := transport.RoundTrip(q)
	if err != nil {
		return r
	}
	defer res.Body.Close()
	r.Status = res.StatusCode
	if r.Status != http.StatusOK {
		_, _ = io.Copy(io.Discard, res.Body) // the connection can be reused only after the body was read
		return r
	}
	lines := bufio.NewReader(res.Body)
	for {
		line, err := lines.ReadSlice('\n')
		if err != nil {
			return r // the stream was truncated, or the client disconnected
		}
		switch {
		case !bytes.HasPrefix(line, []byte("data:")):
		case bytes.Contains(line, []byte("[DONE]")):
			r.Completed = now()
			return r
		case r.First == 0:
			r.First = now()
		}
	}
}

// Quantile sorts the slice in place, and returns a quantile of its elements. The
// parameter q is between 0 and 1, for example 0.5 for the median. The result is 0 if the
// slice is empty.
func Quantile(values []time.Duration, q float64) time.Duration {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[min(int(q*float64(len(values))), len(values)-1)]
}

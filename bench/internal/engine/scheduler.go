package engine

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A Scheduler is a central scheduler in front of one engine, like the endpoint pickers of
// the Gateway API Inference Extension. It polls the engine's metrics page, and forwards
// requests while the latest page shows a short queue and a free cache. It holds other
// requests in order of arrival. It does not count the requests that it has forwarded
// since the latest page.
type Scheduler struct {
	Engine string        // URL of the engine
	Period time.Duration // polling interval
	// MaxWaiting is the maximum length of the engine's queue. MaxKV is the maximum used
	// share of its KV cache, from 0 to 1. The scheduler forwards no requests while the
	// metrics page shows a larger value. The defaults of the Gateway API Inference
	// Extension are 5 and 0.8.
	MaxWaiting float64
	MaxKV      float64

	server http.Server
	listen net.Listener
	stop   context.CancelFunc
	polls  sync.WaitGroup

	mu      sync.Mutex
	open    bool // the latest page exceeds neither MaxWaiting nor MaxKV
	waiting []chan struct{}
}

// Start serves on a free port of 127.0.0.1 until Stop is called.
func (s *Scheduler) Start() error {
	target, err := url.Parse(s.Engine)
	if err != nil {
		return fmt.Errorf("engine of the scheduler: %w", err)
	}
	if s.listen, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return fmt.Errorf("scheduler: %w", err)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     &http.Transport{MaxIdleConnsPerHost: 4096, DisableCompression: true},
		FlushInterval: -1,
		ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	s.server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.await(r) {
			proxy.ServeHTTP(w, r)
		} else {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.polls.Go(func() { s.poll(ctx) })
	s.polls.Go(func() { _ = s.server.Serve(s.listen) }) // returns after Stop
	return nil
}

// URL returns the URL of the scheduler.
func (s *Scheduler) URL() string { return "http://" + s.listen.Addr().String() }

// Stop stops the scheduler and closes all connections.
func (s *Scheduler) Stop() {
	s.stop()
	_ = s.server.Close()
	s.polls.Wait()
}

// await holds a request until the engine has room. It returns false if the request's
// deadline passes or the client disconnects.
func (s *Scheduler) await(r *http.Request) bool {
	s.mu.Lock()
	if s.open && len(s.waiting) == 0 {
		s.mu.Unlock()
		return true
	}
	admitted := make(chan struct{})
	s.waiting = append(s.waiting, admitted)
	s.mu.Unlock()
	var expired <-chan time.Time
	if ms, err := strconv.Atoi(r.Header.Get("x-slo-ttft-ms")); err == nil {
		expired = time.After(time.Duration(ms) * time.Millisecond)
	}
	select {
	case <-admitted:
		return true
	case <-expired:
	case <-r.Context().Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, other := range s.waiting {
		if other == admitted {
			s.waiting = append(s.waiting[:i], s.waiting[i+1:]...)
			return false
		}
	}
	// In the meantime, poll has released the request and removed it from s.waiting. So the
	// request is admitted, although its time is over or its client has disconnected.
	return true
}

// poll reads the page once per period, and releases all waiting requests if the page shows
// room.
func (s *Scheduler) poll(ctx context.Context) {
	tick := time.NewTicker(s.Period)
	defer tick.Stop()
	for {
		open := s.hasRoom(ctx)
		s.mu.Lock()
		s.open = open
		if open {
			for _, admitted := range s.waiting {
				close(admitted)
			}
			s.waiting = nil
		}
		s.mu.Unlock()
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (s *Scheduler) hasRoom(ctx context.Context) bool {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, s.Engine+"/metrics", nil)
	if err != nil {
		return false
	}
	res, err := http.DefaultClient.Do(q)
	if err != nil {
		return false
	}
	defer res.Body.Close()
	values := map[string]float64{}
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		name, rest, _ := strings.Cut(lines.Text(), "{")
		if v, err := strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:], 64); err == nil {
			values[name] = v
		}
	}
	return values["vllm:num_requests_waiting"] <= s.MaxWaiting && values["vllm:kv_cache_usage_perc"] <= s.MaxKV
}

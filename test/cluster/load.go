package cluster

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A Kind is a kind of load.
type Kind struct {
	HTTP2, Post, KeepAlive bool
}

func (k Kind) String() string {
	parts := []string{"HTTP/1", "GET", "new connections"}
	if k.HTTP2 {
		parts[0] = "HTTP/2"
	}
	if k.Post {
		parts[1] = "streamed POST"
	}
	if k.KeepAlive {
		parts[2] = "keep-alive"
	}
	return strings.Join(parts, ", ")
}

// Kinds returns all kinds.
func Kinds() []Kind {
	var all []Kind
	for i := range 8 {
		all = append(all, Kind{i&1 != 0, i&2 != 0, i&4 != 0})
	}
	return all
}

type tally struct {
	complete int
	lost     []string
	slowest  time.Duration
}

// A Load sends requests until it is stopped.
type Load struct {
	cancel  context.CancelFunc
	workers sync.WaitGroup
	mu      sync.Mutex
	tallies map[Kind]*tally
}

// pause is the pause of a worker between two requests.
const pause = 10 * time.Millisecond

// StartLoad starts two workers for each of the given kinds. They send requests to the
// address. The Host field of the requests is the given host, or the address if the host
// is "".
func StartLoad(t *testing.T, address, host string, kinds ...Kind) *Load {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	l := &Load{cancel: cancel, tallies: map[Kind]*tally{}}
	for _, k := range kinds {
		l.tallies[k] = &tally{}
	}
	for _, k := range kinds {
		for range 2 {
			l.workers.Go(func() { l.work(ctx, address, host, k) })
		}
	}
	t.Cleanup(func() { l.cancel(); l.workers.Wait() })
	return l
}

func (l *Load) work(ctx context.Context, address, host string, k Kind) {
	var send func() error
	if k.HTTP2 {
		send = overHTTP2(address, host, k)
	} else {
		send = overHTTP1(address, host, k)
	}
	for ctx.Err() == nil {
		began := time.Now()
		err := send()
		took := time.Since(began)
		l.mu.Lock()
		if tally := l.tallies[k]; err != nil {
			tally.lost = append(tally.lost, fmt.Sprintf("%s after %v: %v", time.Now().Format(time.TimeOnly), took.Round(time.Millisecond), err))
		} else {
			tally.complete++
			tally.slowest = max(tally.slowest, took)
		}
		l.mu.Unlock()
		time.Sleep(pause)
	}
}

// Await waits for n further complete requests.
func (l *Load) Await(t *testing.T, n int) {
	t.Helper()
	n += l.completed()
	Eventually(t, func() error {
		if c := l.completed(); c < n {
			return fmt.Errorf("%d requests complete, want %d", c, n)
		}
		return nil
	})
}

func (l *Load) completed() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, tally := range l.tallies {
		n += tally.complete
	}
	return n
}

// Stop ends and logs the load. It returns the numbers of complete and of lost requests.
func (l *Load) Stop(t *testing.T) (complete, lost int) {
	t.Helper()
	l.cancel()
	l.workers.Wait()
	for _, k := range slices.SortedFunc(maps.Keys(l.tallies), func(a, b Kind) int { return strings.Compare(a.String(), b.String()) }) {
		tally := l.tallies[k]
		t.Logf("%-40v %5d complete, %d lost, slowest %v", k, tally.complete, len(tally.lost), tally.slowest.Round(time.Millisecond))
		for _, problem := range tally.lost[:min(len(tally.lost), 10)] {
			t.Logf("lost: %s", problem)
		}
		complete += tally.complete
		lost += len(tally.lost)
	}
	return complete, lost
}

// StopComplete stops the load like Stop. It fails the test if a request was lost, or if
// no request was completed.
func (l *Load) StopComplete(t *testing.T) {
	t.Helper()
	if complete, lost := l.Stop(t); complete == 0 || lost > 0 {
		t.Errorf("%d requests complete, %d lost", complete, lost)
	}
}

// request returns a request and the expected body. A POST sends its body in five parts,
// with pauses.
func request(address, host string, post bool) (r *http.Request, want string) {
	if !post {
		r, _ = http.NewRequest(http.MethodGet, "http://"+address+"/delay?ms=20", nil)
		r.Host = cmp.Or(host, address)
		return r, ""
	}
	reader, writer := io.Pipe()
	r, _ = http.NewRequest(http.MethodPost, "http://"+address+"/echo?as=body", reader)
	r.Host = cmp.Or(host, address)
	go func() {
		for i := range 5 {
			if _, err := fmt.Fprintf(writer, "part %d\n", i); err != nil {
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
		writer.Close()
	}()
	return r, "part 0\npart 1\npart 2\npart 3\npart 4\n"
}

// Check reads a response, and fails unless the status is 200 and the body is want. An
// empty want accepts any body.
func Check(response *http.Response, want string) error {
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	switch {
	case err != nil:
		return fmt.Errorf("status %d, then %w", response.StatusCode, err)
	case response.StatusCode != http.StatusOK:
		return fmt.Errorf("status %d %v: %.100s", response.StatusCode, response.Header, body)
	case want != "" && string(body) != want:
		return fmt.Errorf("body %.100q", body)
	}
	return nil
}

// requestTimeout ends a request that hangs.
const requestTimeout = 2 * time.Minute

// overHTTP1 manages connections itself. net/http would silently retry a request after a
// close, but the test must count that request as lost.
func overHTTP1(address, host string, k Kind) func() error {
	var conn net.Conn
	var reader *bufio.Reader
	return func() error {
		if conn == nil {
			c, err := net.DialTimeout("tcp", address, requestTimeout)
			if err != nil {
				return err
			}
			conn, reader = c, bufio.NewReader(c)
		}
		conn.SetDeadline(time.Now().Add(requestTimeout))
		r, want := request(address, host, k.Post)
		defer func() {
			if r.Body != nil {
				r.Body.Close()
			}
		}()
		r.Close = !k.KeepAlive
		allDone := true
		defer func() {
			if allDone {
				conn.Close()
				conn = nil
			}
		}()
		if err := r.Write(conn); err != nil {
			return err
		}
		response, err := http.ReadResponse(reader, r)
		if err != nil {
			return err
		}
		err = Check(response, want)
		allDone = err != nil || response.Close
		return err
	}
}

// overHTTP2 retries a request that a GOAWAY reports as unprocessed (RFC 9113).
func overHTTP2(address, host string, k Kind) func() error {
	transport := &http.Transport{Protocols: new(http.Protocols), DisableKeepAlives: !k.KeepAlive}
	transport.Protocols.SetUnencryptedHTTP2(true)
	client := &http.Client{Transport: transport, Timeout: requestTimeout}
	return func() error {
		r, want := request(address, host, k.Post)
		response, err := client.Do(r)
		if err != nil {
			return errors.Unwrap(err)
		}
		if response.ProtoMajor != 2 {
			response.Body.Close()
			return errors.New(response.Proto)
		}
		return Check(response, want)
	}
}

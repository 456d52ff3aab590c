package torture

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/queuegate/queuegate/test/torture/script"
)

// innocent is a client over HTTP/2 or HTTP/1.1 with a fixed rate (open loop).
type innocent struct {
	url    string
	client http.Client

	mu      sync.Mutex
	took    []time.Duration // latencies, from the scheduled start of each request
	failed  int
	reasons []string
}

const innocentPerSecond = 100

func newInnocent(addr string, http2 bool) *innocent {
	tr := &http.Transport{Protocols: new(http.Protocols), DisableCompression: true}
	tr.Protocols.SetUnencryptedHTTP2(http2)
	tr.Protocols.SetHTTP1(!http2)
	return &innocent{url: "http://" + addr + "/", client: http.Client{Transport: tr, Timeout: testTimeout}}
}

func (c *innocent) run(d time.Duration) {
	var all sync.WaitGroup
	began := time.Now()
	for due := began; due.Sub(began) < d; due = due.Add(time.Second / innocentPerSecond) {
		time.Sleep(time.Until(due))
		all.Go(func() {
			err := c.sendRequest()
			c.mu.Lock()
			defer c.mu.Unlock()
			c.took = append(c.took, time.Since(due))
			if err != nil {
				if c.failed++; c.failed <= 5 {
					c.reasons = append(c.reasons, err.Error())
				}
			}
		})
	}
	all.Wait()
}

func (c *innocent) sendRequest() error {
	q, err := http.NewRequest("GET", c.url, nil)
	if err != nil {
		return err
	}
	q.Header.Set(script.ID, "0")
	q.Header.Set(script.Size, "100")
	a, err := c.client.Do(q)
	if err != nil {
		return err
	}
	defer a.Body.Close()
	body, err := io.ReadAll(a.Body)
	if err != nil || a.StatusCode != 200 || !bytes.HasPrefix(body, []byte("0 0 00000000\n")) {
		return fmt.Errorf("got %d %.100q, %v", a.StatusCode, body, err)
	}
	return nil
}

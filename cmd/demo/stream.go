package main

import (
	"context"
	"fmt"
	"math"
	"net/http"
)

// stream responds with n chunks of one line, at intervals of ms milliseconds.
func (c *container) stream(w http.ResponseWriter, r *http.Request) error {
	n, ms, err := schedule(r, 10, 200)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if r.Method == http.MethodHead {
		return nil
	}
	out := flushing{w, http.NewResponseController(w)}
	for i := int64(1); i <= n; i++ {
		if i > 1 && !pause(r.Context(), millis(ms)) {
			return nil
		}
		_, err := fmt.Fprintf(out, "chunk %d of %d\n", i, n)
		cutOn(err)
	}
	return nil
}

// events responds with n server-sent events, one every ms milliseconds. If n is 0, the
// number of events is not limited. The events end earlier if the client disconnects or
// the container stops. The query parameter "after" is a delay in milliseconds before the
// head of the response.
func (c *container) events(w http.ResponseWriter, r *http.Request) error {
	n, ms, err := schedule(r, 10, 1000)
	if err != nil {
		return err
	}
	if n == 0 {
		n = math.MaxInt64
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(c.stopping, cancel)()

	after, err := queryInt(r, "after", 0, mostMillis)
	if err != nil {
		return err
	}
	if !pause(ctx, millis(after)) {
		return nil
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	if r.Method == http.MethodHead {
		return nil
	}
	out := flushing{w, http.NewResponseController(w)}
	for i := int64(1); i <= n; i++ {
		if i > 1 && !pause(ctx, millis(ms)) {
			return nil
		}
		_, err := fmt.Fprintf(out, "id: %d\nevent: tick\ndata: {\"tick\":%d}\n\n", i, i)
		cutOn(err)
	}
	return nil
}

// schedule returns how many chunks to send, and their interval in milliseconds.
func schedule(r *http.Request, absentN, absentMillis int64) (n, ms int64, err error) {
	if n, err = queryInt(r, "n", absentN, mostChunks); err != nil {
		return 0, 0, err
	}
	ms, err = queryInt(r, "ms", absentMillis, mostMillis)
	return n, ms, err
}

package enginemetrics

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"
)

// fetcher gets a page over HTTP/1.1 and keeps its connection open for the next page.
// Its methods must not be called concurrently.
type fetcher struct {
	address string // host:port
	request []byte
	conn    net.Conn // nil = none
	in      *bufio.Reader
	buf     []byte
}

func newFetcher(page *url.URL) *fetcher {
	port := page.Port()
	if port == "" {
		port = "80"
	}
	path := page.RequestURI()
	return &fetcher{
		address: net.JoinHostPort(page.Hostname(), port),
		request: []byte("GET " + path + " HTTP/1.1\r\nHost: " + page.Host + "\r\nUser-Agent: queuegate\r\nAccept: text/plain\r\n\r\n"),
		in:      bufio.NewReaderSize(nil, 4<<10),
		buf:     make([]byte, maxLine),
	}
}

// get gets the page before deadline. If the kept connection fails, it retries over a
// new connection.
func (f *fetcher) get(ctx context.Context, deadline time.Time) (Page, error) {
	if f.conn != nil {
		if p, err := f.exchange(ctx, deadline); err == nil {
			return p, nil
		} else if ctx.Err() != nil || !time.Now().Before(deadline) {
			return Page{}, err
		}
	}
	dialer := net.Dialer{Deadline: deadline}
	conn, err := dialer.DialContext(ctx, "tcp", f.address)
	if err != nil {
		return Page{}, err
	}
	f.conn = conn
	return f.exchange(ctx, deadline)
}

// exchange gets the page over f.conn. It closes f.conn unless it can be reused.
func (f *fetcher) exchange(ctx context.Context, deadline time.Time) (p Page, err error) {
	reusable := false
	defer func() {
		if !reusable {
			f.close()
		}
	}()
	conn := f.conn
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	_ = conn.SetDeadline(deadline)
	if _, err := conn.Write(f.request); err != nil {
		return Page{}, err
	}
	head := io.LimitedReader{R: conn, N: maxPage + maxHead}
	f.in.Reset(&head) // limit the size of the head
	res, err := http.ReadResponse(f.in, nil)
	if err != nil {
		return Page{}, err
	}
	if res.StatusCode != http.StatusOK {
		return Page{}, fmt.Errorf("status %d", res.StatusCode)
	}
	if p, err = readPage(res.Body, f.buf); err != nil {
		return Page{}, err
	}
	reusable = !res.Close && f.in.Buffered() == 0
	return p, nil
}

// maxHead is the maximum size of a response head in bytes.
const maxHead = 64 << 10

func (f *fetcher) close() {
	if f.conn != nil {
		_ = f.conn.Close()
		f.conn = nil
	}
}

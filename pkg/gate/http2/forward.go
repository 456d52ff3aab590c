package http2

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/internal/field"
)

// maxTries bounds how often a request that the container says it has not
// processed is sent.
const maxTries = 32

// forward sends the request to the container and the answer to the client.
func (s *stream) forward() gate.Outcome {
	out := s.compose()
	for try := 1; ; try++ {
		way, outcome := s.srv.up.way(s)
		if outcome != gate.Served {
			return outcome
		}
		var began time.Duration
		s.stamp(&began)
		res, err := way.RoundTrip(out)
		if s.sent.Load() {
			s.exchange.Forwarded = began
		}
		if err == nil {
			s.srv.up.prove()
			return s.relay(res)
		}
		outcome, again := s.failed(way, err, try)
		if !again {
			return outcome
		}
	}
}

// compose makes the request that the container gets.
func (s *stream) compose() *http.Request {
	ctx := httptrace.WithClientTrace(s.ctx, &httptrace.ClientTrace{
		GotConn:        s.gotConn,
		WroteHeaders:   s.wroteHeaders,
		Got1xxResponse: s.interim,
	})
	out := s.r.WithContext(ctx)
	out.URL = &url.URL{
		Scheme: "http", Host: s.srv.up.address,
		Path: s.r.URL.Path, RawPath: s.r.URL.RawPath, RawQuery: s.r.URL.RawQuery, ForceQuery: s.r.URL.ForceQuery,
	}
	out.RequestURI, out.Host = "", s.head.host
	out.Body = nil
	out.Trailer = nil
	if s.r.ContentLength != 0 {
		out.Body = &s.body
		for name := range s.r.Trailer {
			if field.MayTrail(bytesOf(name)) {
				if out.Trailer == nil {
					out.Trailer = make(http.Header)
				}
				out.Trailer[name] = nil
			}
		}
		s.body.trailer = out.Trailer
	} else {
		s.body.ended.Store(true)
	}
	return out
}

// interim notes a 1xx answer. It is called by the reader of the container's
// connection, which others share.
func (s *stream) interim(status int, header textproto.MIMEHeader) error {
	s.started()
	if status != http.StatusContinue { // the library has said that one itself
		s.said.add(s, status, http.Header(header))
	}
	return nil
}

// streamError is how the library says that the container has reset a stream:
// errors.As takes any struct of this shape.
type streamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

func (e streamError) Error() string { return "stream reset" }

// refusedStream says that nothing of the request was processed (RFC 9113
// section 8.7).
const refusedStream = 0x7

// goneAway is what the library says of requests that the container's GOAWAY
// excludes, and that were therefore not processed.
const goneAway = "http2: Transport received Server's graceful shutdown GOAWAY"

// headTooLarge is what the library says of a head that is beyond the limit
// which the container has announced.
const headTooLarge = "http2: request header list larger than peer's advertised limit"

// failed decides what becomes of a request that got no answer: another try, or
// an outcome.
func (s *stream) failed(way way, err error, try int) (outcome gate.Outcome, again bool) {
	if o := s.ended(); o != gate.Served {
		return o, false
	}
	var refused dialError
	if errors.As(err, &refused) {
		s.srv.up.line.refused()
		return gate.UpstreamNotListening, s.reopen()
	}
	switch {
	case errors.Is(err, errTLS):
		return gate.UpstreamTLSFailed, false
	case err.Error() == headTooLarge:
		return gate.HeadTooLarge, false
	}
	if s.unsent() {
		return gate.UpstreamClosed, s.reopen() // each of these costs the pool a connection, so they end
	}
	var reset streamError
	isReset := errors.As(err, &reset)
	mismatch := s.srv.up.mismatch(s.ctx, way, err)
	unprocessed := !s.sent.Load() || mismatch || isReset && reset.Code == refusedStream || err.Error() == goneAway
	if (unprocessed && try < maxTries || way.reused && try == 1 && s.replayable()) && s.reopen() {
		s.srv.up.replays.Inc()
		return gate.Served, true
	}
	switch {
	case mismatch:
		return gate.UpstreamMalformed, false
	case isReset || isConnReset(err):
		return gate.UpstreamReset, false
	case isMalformed(err):
		return gate.UpstreamMalformed, false
	}
	return gate.UpstreamClosed, false
}

// reopen readies the request for another try.
func (s *stream) reopen() bool {
	s.sent.Store(false)
	if s.pooled { // else a stream that failed may still be looking
		s.pooled = false
	}
	return s.body.reopen()
}

// replayable reports whether the request may be sent again although it may
// have been processed (RFC 9110 section 9.2.2).
func (s *stream) replayable() bool {
	switch s.r.Method {
	case "GET", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE":
		return s.body.ended.Load() && s.body.taken.Load() == 0
	}
	return false
}

// relay hands the container's answer to the client.
func (s *stream) relay(res *http.Response) gate.Outcome {
	defer res.Body.Close()
	s.started()
	s.stamp(&s.exchange.Answered)
	s.exchange.Status = res.StatusCode
	s.said.wait()
	if o := s.ended(); o != gate.Served {
		return s.settle(res, o)
	}
	if res.StatusCode == http.StatusSwitchingProtocols {
		return gate.UpstreamMalformed // nobody asked for it
	}
	s.answered = true
	h := s.w.Header()
	copyAnswerFields(h, res.Header)
	announce(h, res.Trailer)
	if res.StatusCode == http.StatusNoContent {
		delete(h, "Content-Length") // RFC 9110 section 8.6
	}
	for _, name := range [...]string{"Content-Type", "Content-Length"} {
		if _, there := h[name]; !there {
			h[name] = nil // an absent one would be made up
		}
	}
	if _, there := h["Date"]; !there {
		h["Date"] = s.srv.date.value()
	}
	s.sayGoodbye(h)
	s.w.WriteHeader(res.StatusCode)
	if s.r.Method == http.MethodHead || res.StatusCode == http.StatusNoContent || res.StatusCode == http.StatusNotModified {
		return gate.Served // nothing follows, whatever Content-Length says
	}
	return s.relayBody(res)
}

// relayBody copies the answer's body, each piece as it comes.
func (s *stream) relayBody(res *http.Response) gate.Outcome {
	flusher := s.w.(flusher)
	if res.ContentLength != 0 { // else the head may end the stream: gRPC's Trailers-Only
		if err := s.toClient(flusher.FlushError); err != nil {
			return s.clientEnded(res)
		}
	}
	buf := s.srv.copies.get()
	defer s.srv.copies.put(buf)
	for {
		n, err := res.Body.Read(buf[:])
		if n > 0 {
			s.moved()
			s.exchange.ResponseBody += int64(n)
			whole := s.exchange.ResponseBody == res.ContentLength
			werr := s.toClient(func() error {
				if _, err := s.w.Write(buf[:n]); err != nil || whole {
					return err // the end of the stream takes it along
				}
				return flusher.FlushError()
			})
			if werr != nil {
				return s.clientEnded(res)
			}
		}
		switch {
		case err == nil:
		case err == io.EOF:
			return s.completed(res)
		default:
			if o := s.ended(); o != gate.Served {
				return s.settle(res, o)
			}
			return gate.UpstreamBrokeOff
		}
	}
}

// flusher is the part of the library's ResponseWriter that reports how
// flushing went.
type flusher interface{ FlushError() error }

// completed ends an answer of which all has been handed to the library.
func (s *stream) completed(res *http.Response) gate.Outcome {
	copyTrailers(s.w.Header(), res.Trailer)
	return gate.Served
}

// clientEnded tells why nothing more can be given to the client.
func (s *stream) clientEnded(res *http.Response) gate.Outcome {
	if o := s.expired(); o != gate.Served {
		return o
	}
	return s.settle(res, gate.ClientGone)
}

// settle holds the slot of a request whose client has left until the
// container has finished its answer, if it shall never work on more requests
// than the limit says.
func (s *stream) settle(res *http.Response, outcome gate.Outcome) gate.Outcome {
	if outcome != gate.ClientGone || !s.gate.HardConcurrency {
		return outcome
	}
	s.mu.Lock()
	s.clocks.Settle()
	s.mu.Unlock()
	buf := s.srv.copies.get()
	defer s.srv.copies.put(buf)
	for {
		if _, err := res.Body.Read(buf[:]); err != nil {
			return outcome
		}
	}
}

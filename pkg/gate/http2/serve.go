package http2

import (
	"fmt"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
)

// handle serves one request.
func (s *Server) handle(w http.ResponseWriter, r *http.Request) {
	st := &stream{srv: s, gate: s.gate, w: w, r: r}
	st.conn = r.Context().Value(connKey{}).(*conn)
	st.body.stream, st.body.src = st, r.Body
	st.head.read(r)
	if outcome := st.check(); outcome != gate.Served {
		if o := s.gate.Observer; o != nil {
			o.Rejected(outcome)
		}
		st.refuse(outcome)
		return
	}
	if r.Method == http.MethodOptions && r.RequestURI == "*" {
		st.reply(&gate.Reply{Outcome: gate.Probed, Status: http.StatusOK})
		return
	}
	if kind, who := gate.Classify(st.head.probe); kind != gate.Traffic {
		st.probe(kind, who)
		return
	}
	if s.gate.TLSOnly && !st.conn.encrypted {
		if o := s.gate.Observer; o != nil {
			o.Rejected(gate.PlaintextRefused)
		}
		st.refuse(gate.PlaintextRefused)
		return
	}
	st.traffic()
}

// check refuses heads that are not forwarded whatever they ask for.
func (s *stream) check() gate.Outcome {
	switch {
	case s.r.Method == http.MethodConnect:
		return gate.MethodNotAllowed
	case s.head.fields > maxFields:
		return gate.HeadTooLarge
	case s.r.RequestURI == "*" && s.r.Method != http.MethodOptions:
		return gate.BadRequest
	case !s.head.chooseHost(s.r.Host, s.srv.up.address):
		return gate.BadRequest
	}
	return gate.Served
}

// traffic serves a request that is not a probe.
func (s *stream) traffic() {
	s.begin()
	outcome := gate.InternalError
	defer func() {
		v := recover()
		s.end(outcome)
		if v != nil {
			s.srv.cfg.Panicked(fmt.Errorf("%v\n%s", v, debug.Stack()))
		}
		s.conclude(outcome)
	}()
	if why := s.admit(); why != gate.Served {
		outcome = why
		return
	}
	outcome = s.forward()
}

// admit takes a slot or waits in the queue for one.
func (s *stream) admit() gate.Outcome {
	if s.r.Context().Err() != nil {
		return gate.ClientGone
	}
	if !s.gate.Admission.TryBegin() {
		if outcome := s.queue(); outcome != gate.Served {
			return outcome
		}
	}
	s.slot = true
	s.stamp(&s.exchange.Admitted)
	return gate.Served
}

// queue waits until the head of the queue gets a slot.
func (s *stream) queue() gate.Outcome {
	granted := make(chan struct{}, 1)
	w := &gate.Waiter{Notify: func() { granted <- struct{}{} }}
	switch s.gate.Admission.Begin(w) {
	case gate.Admitted:
		return gate.Served
	case gate.Refused:
		return gate.QueueFull
	}
	var giveUp <-chan time.Time
	if d := s.gate.QueueMaxWait; d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		giveUp = timer.C
	}
	outcome := gate.Served
	select {
	case <-granted:
	case <-giveUp:
		outcome = gate.QueueWaitExpired
	case <-s.ctx.Done():
	case <-s.r.Context().Done():
	}
	if why := s.ended(); why != gate.Served {
		outcome = why
	}
	if outcome != gate.Served && !s.gate.Admission.Withdraw(w) {
		s.slot = true // admitted a moment ago; end gives it back
	}
	return outcome
}

// conclude says how the request ended, where the client can still hear it.
func (s *stream) conclude(outcome gate.Outcome) {
	s.said.wait()
	switch {
	case outcome == gate.Served:
	case outcome == gate.ClientGone:
		if s.conn.countReset(now()) {
			s.srv.countError("rapid_reset")
			s.conn.cut()
		}
		panic(http.ErrAbortHandler)
	case !s.answered:
		s.refuse(outcome)
	case s.head.grpc:
		s.breakGRPC(outcome)
	default:
		panic(http.ErrAbortHandler) // resets the stream
	}
}

// probe answers a probe of the platform. Nothing of it is counted, and it
// needs no slot.
func (s *stream) probe(kind gate.Kind, c gate.Caller) {
	if s.gate.Observer != nil {
		s.describe()
	}
	a, ok := s.gate.ReplyToProbe(kind, c, s.conn.peer.Addr(), &s.head.probe, func() (gate.ReadinessResult, bool) { return s.gate.WaitReady(s.r.Context(), c) })
	if !ok {
		panic(http.ErrAbortHandler)
	}
	if o := s.gate.Observer; o != nil {
		x := &s.exchange
		x.Outcome, x.Status, x.ResponseBody = a.Outcome, a.Status, int64(a.Length())
		x.Ended = time.Duration(now())
		o.Probed(x)
	}
	s.reply(&a)
}

// refuse answers in the gate's own name, before anything of an answer has
// gone out.
func (s *stream) refuse(outcome gate.Outcome) {
	a := gate.ReplyTo(outcome)
	if s.head.grpc {
		s.refuseGRPC(&a)
		return
	}
	s.reply(&a)
}

// replyPatience bounds how long a client may leave a reply of the gate's own
// untaken. The request's clocks have ended by then.
const replyPatience = 5 * time.Second

// reply sends a.
func (s *stream) reply(a *gate.Reply) {
	h := s.w.Header()
	for name, value := range a.Fields {
		h[http.CanonicalHeaderKey(name)] = []string{value}
	}
	if a.Body == "" {
		h["Content-Type"] = nil
	}
	h["Content-Length"] = []string{strconv.Itoa(a.Length())}
	s.sayGoodbye(h)
	s.w.WriteHeader(a.Status)
	if a.Length() > 0 && s.r.Method != http.MethodHead {
		_ = http.NewResponseController(s.w).SetWriteDeadline(time.Now().Add(replyPatience))
		_, _ = s.w.Write(a.AppendBody(nil)) // the client may have left
	}
}

// sayGoodbye tells the client of a draining gate that the connection ends
// after its streams (GOAWAY).
func (s *stream) sayGoodbye(h http.Header) {
	if s.gate.Drain.Active() {
		h["Connection"] = []string{"close"}
	}
}

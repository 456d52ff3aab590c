package http1

import (
	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/loop"
)

// settleHard holds the slot of a request whose client has left until the
// container has finished its answer or closed its connection, so that it never
// works on more requests than the limit says. The container learns of the
// client's departure from a half-close.
func (w *worker) settleHard() {
	if !w.gate.HardConcurrency || w.up == nil || w.upload.written == 0 || w.passage.tunnel {
		return
	}
	s := &w.up.sock
	s.CloseWrite()
	w.clocks.Settle()
	if d := &w.download; w.passage.answered {
		w.discard(d.buf[d.r:d.w])
		w.uw = 0
	}
	for !w.download.body.Ended && !s.Failed() && !w.eng.loop.Closing() && w.clocks.Expired(w.now()) == gate.Served {
		n, err := s.Read(w.answerRoom())
		if err == loop.ErrAgain {
			w.task.Wait(w.clocks.Next())
			continue
		}
		w.uw += n
		if err != nil || !w.discardAnswer() {
			return
		}
	}
}

// discardAnswer passes over what stands in uin. It is false when that cannot
// be understood.
func (w *worker) discardAnswer() bool {
	for !w.passage.answered && w.uw > 0 {
		complete, err := w.res.ScanAnswer(w.uin[:w.uw])
		if complete && err == nil {
			err = w.res.Decide(w.req.Method)
		}
		if err != nil {
			return false
		}
		if !complete {
			return true
		}
		if w.passage.answered = w.res.Status >= 200; w.passage.answered {
			w.download.body.Begin(w.res.Body, w.res.Length)
		}
		w.takeHead()
	}
	rest := w.uin[:w.uw]
	w.uw = 0
	return w.discard(rest)
}

func (w *worker) discard(b []byte) bool {
	for len(b) > 0 && !w.download.body.Ended {
		_, n, err := w.download.body.Next(b)
		if err != nil {
			w.download.body.Ended = true
			return false
		}
		b = b[n:]
	}
	return true
}

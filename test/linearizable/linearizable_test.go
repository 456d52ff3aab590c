package linearizable

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"go.uber.org/atomic"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/admission"
	"github.com/queuegate/queuegate/pkg/gate/exchange"
)

// call is an operation with its argument.
type call struct {
	operation string
	id        int
	n         int
}

// admissionState is the state of the admission model.
type admissionState struct {
	limit, capacity int // limit 0 = unlimited
	inFlight        int
	queue           [8]int8 // id + 1 of each queued request; 0 = unused
	waiting         int
	holders         uint8
}

func (s admissionState) admit() admissionState {
	id := s.queue[0]
	copy(s.queue[:], s.queue[1:])
	s.queue[len(s.queue)-1] = 0
	s.waiting--
	s.holders |= 1 << (id - 1)
	return s
}

func (s admissionState) dequeue(id int) (admissionState, bool) {
	i := slices.Index(s.queue[:s.waiting], int8(id+1))
	if i < 0 {
		return s, false
	}
	copy(s.queue[i:], s.queue[i+1:])
	s.queue[len(s.queue)-1] = 0
	s.waiting--
	return s, true
}

func (s admissionState) free() bool { return s.limit == 0 || s.inFlight < s.limit }

func admissionModel(limit, capacity int) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return admissionState{limit: limit, capacity: capacity} },
		Step: func(state, input, output any) (bool, any) {
			s, in := state.(admissionState), input.(call)
			bit := uint8(1) << in.id
			switch in.operation {
			case "begin":
				want := admission.Rejected
				switch {
				case s.free():
					want = admission.Admitted
					s.inFlight++
					s.holders |= bit
				case s.waiting < s.capacity:
					want = admission.Queued
					s.queue[s.waiting] = int8(in.id + 1)
					s.waiting++
				}
				return output.(admission.Decision) == want, s
			case "end":
				s.holders &^= bit
				if s.waiting > 0 && s.inFlight <= s.limit {
					return true, s.admit()
				}
				s.inFlight--
				return true, s
			case "withdraw":
				after, waited := s.dequeue(in.id)
				return output.(bool) == waited && (waited || s.holders&bit != 0), after
			case "admitted":
				// A grant changes the counters before the state of the waiter. So
				// Admitted may return false for a waiter that already has a slot in
				// the model. If it returns true, the waiter must have a slot.
				return !output.(bool) || s.holders&bit != 0, s
			}
			s.limit = in.n
			if in.operation == "configure" {
				s.capacity = in.id
			}
			for s.waiting > 0 && s.free() {
				s = s.admit()
				s.inFlight++
			}
			return true, s
		},
	}
}

type history struct {
	mu  sync.Mutex
	all []porcupine.Operation
}

var born = time.Now()

func (h *history) do(client int, in call, f func() any) any {
	began := int64(time.Since(born))
	out := f()
	endTime := int64(time.Since(born))
	if rand.IntN(2) == 0 {
		runtime.Gosched() // yield, so that operations overlap
	}
	h.mu.Lock()
	h.all = append(h.all, porcupine.Operation{ClientId: client, Input: in, Call: began, Output: out, Return: endTime})
	h.mu.Unlock()
	return out
}

// check fails the test if no sequential order of the operations explains their results
// in the model m. If the search for an order takes more than 20 s, check does not fail.
func (h *history) check(t *testing.T, m porcupine.Model) {
	t.Helper()
	if result := porcupine.CheckOperationsTimeout(m, h.all, 20*time.Second); result == porcupine.Illegal {
		for _, o := range h.all {
			t.Logf("%d: %+v → %v, %d to %d", o.ClientId, o.Input, o.Output, o.Call, o.Return)
		}
		t.Fatal("no sequential order of these operations explains their results")
	}
}

// Goroutines acquire, wait, withdraw and release while limit and capacity change.
func TestAdmissionIsLinearizable(t *testing.T) {
	rounds := 3000
	if testing.Short() {
		rounds = 300
	}
	for round := range rounds {
		limit, capacity := 1+rand.IntN(3), rand.IntN(4)
		a := admission.New(admission.Config{Limit: limit, Capacity: capacity})
		var h history
		var all sync.WaitGroup
		start := make(chan struct{})
		for id := range 5 {
			all.Go(func() {
				<-start
				var notified atomic.Int32
				w := admission.Waiter{Notify: func() { notified.Inc() }}
				for range 4 {
					switch h.do(id, call{"begin", id, 0}, func() any { return a.Acquire(&w) }).(admission.Decision) {
					case admission.Rejected:
						continue
					case admission.Queued:
						for i := 0; !h.do(id, call{"admitted", id, 0}, func() any { return w.Admitted() }).(bool); i++ {
							if i == 3 {
								break
							}
							time.Sleep(time.Duration(rand.IntN(20)) * time.Microsecond)
						}
						if rand.IntN(2) == 0 || !w.Admitted() {
							if h.do(id, call{"withdraw", id, 0}, func() any { return a.Withdraw(&w) }).(bool) {
								continue
							}
						}
					}
					h.do(id, call{"end", id, 0}, func() any { a.Release(); return nil })
				}
			})
		}
		switch round % 3 {
		case 0:
			all.Go(func() {
				<-start
				for range 2 {
					n := 1 + rand.IntN(3)
					h.do(5, call{"limit", 0, n}, func() any { a.SetLimit(n); return nil })
				}
			})
		case 1:
			all.Go(func() {
				<-start
				for range 2 {
					n, capacity := rand.IntN(4), rand.IntN(4)
					h.do(5, call{"configure", capacity, n}, func() any {
						a.Configure(admission.Config{Limit: n, Capacity: capacity})
						return nil
					})
				}
			})
		}
		close(start)
		all.Wait()
		h.check(t, admissionModel(limit, capacity))
		if a.InFlight() != 0 || a.QueueDepth() != 0 {
			t.Fatalf("%d in flight and %d queued are left", a.InFlight(), a.QueueDepth())
		}
	}
}

// pendingState is the state of the connect queue model.
type pendingState struct {
	isDown  bool
	due     int8 // whether the next attempt is due: 1 = yes, 0 = no, 2 = unknown
	line    [8]int8
	waiting int
}

func pendingModel() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return pendingState{isDown: true, due: 1} },
		Step: func(state, input, output any) (bool, any) {
			s, in := state.(pendingState), input.(call)
			at := slices.Index(s.line[:s.waiting], int8(in.id+1))
			switch in.operation {
			case "hold":
				if at < 0 {
					at = s.waiting
					s.line[at] = int8(in.id + 1)
					s.waiting++
				}
				try := output.(bool)
				switch {
				case !s.isDown:
					s.due = 2
					return try, s
				case at > 0 || s.due == 0:
					return !try, s
				case try:
					s.due = 0
					return true, s
				}
				return s.due == 2, s
			case "leave":
				copy(s.line[at:], s.line[at+1:])
				s.line[len(s.line)-1] = 0
				s.waiting--
				return true, s
			case "refused":
				news := !s.isDown
				s.isDown = true
				return output.(bool) == news, s
			case "hurry":
				if s.waiting > 0 && s.due == 0 {
					s.due = 1
				}
				return true, s
			case "reached":
				if s.isDown {
					// NoteReached first records that the container is up, and then makes
					// the next attempt due. Another operation may occur between these
					// two steps, so the model does not know whether an attempt is due.
					s.due = 2
				}
				s.isDown = false
				return true, s
			}
			panic("an operation that is not in the model")
		},
	}
}

// Requests are in the connect queue while the container starts and stops.
func TestTheConnectQueueIsLinearizable(t *testing.T) {
	rounds := 3000
	if testing.Short() {
		rounds = 300
	}
	const now = int64(time.Hour) // time stands still, so an attempt becomes due only once
	for range rounds {
		g := &exchange.Gate{Config: exchange.Config{QueueCapacity: 100, UpstreamWait: time.Hour, UpstreamRestartWait: time.Hour}}
		if err := g.Init(); err != nil {
			t.Fatal(err)
		}
		g.Connects.Start(now)
		var h history
		var all sync.WaitGroup
		start := make(chan struct{})
		for id := range 4 {
			all.Go(func() {
				<-start
				var x exchange.Exchange
				x.Bind(g, func() int64 { return now }, func() {}, nil)
				for range 3 {
					x.Begin(now, nil, nil)
					for range 1 + rand.IntN(3) {
						h.do(id, call{"hold", id, 0}, func() any {
							try, _, _ := g.Connects.Enqueue(&x, now)
							return try
						})
					}
					h.do(id, call{"leave", id, 0}, func() any { x.End(gate.ClientGone); return nil })
				}
			})
		}
		all.Go(func() {
			<-start
			for range 4 {
				switch rand.IntN(3) {
				case 0:
					h.do(4, call{"refused", 0, 0}, func() any { return g.Connects.NoteRefused(now) })
				case 1:
					h.do(4, call{"reached", 0, 0}, func() any { g.Connects.NoteReached(); return nil })
				default:
					h.do(4, call{"hurry", 0, 0}, func() any { g.Connects.Hurry(); return nil })
				}
			}
		})
		close(start)
		all.Wait()
		h.check(t, pendingModel())
		if n := g.Connects.Len(); n != 0 {
			t.Fatalf("%d are held when all have left", n)
		}
	}
}

func TestTheLinearizabilityCheckerRejectsWrongOrders(t *testing.T) {
	op := func(client int, in call, out any, at int64) porcupine.Operation {
		return porcupine.Operation{ClientId: client, Input: in, Output: out, Call: 2 * at, Return: 2*at + 1}
	}
	begin := []porcupine.Operation{
		op(0, call{"begin", 0, 0}, admission.Admitted, 0), op(1, call{"begin", 1, 0}, admission.Queued, 1), op(2, call{"begin", 2, 0}, admission.Queued, 2),
		op(0, call{"end", 0, 0}, nil, 3),
	}
	fifo := append(slices.Clone(begin), op(1, call{"admitted", 1, 0}, true, 4), op(2, call{"withdraw", 2, 0}, true, 5))
	lifo := append(slices.Clone(begin), op(1, call{"withdraw", 1, 0}, true, 4), op(2, call{"admitted", 2, 0}, true, 5))
	m := admissionModel(1, 3)
	if !porcupine.CheckOperations(m, fifo) || porcupine.CheckOperations(m, lifo) {
		t.Error("first come, first served is not distinguished from last come, first served")
	}
}

package simulate

import (
	"math/rand/v2"

	"github.com/queuegate/queuegate/pkg/gate/admission"
)

// brake reports the upstream's room (how many more requests it can run) at random times,
// as the metrics page of a model server does (Config.Overload.Brake).
type brake struct {
	*world
	admissionsAtStart uint64 // number of admissions when the page was requested
	inFlight          int    // maximum number of requests in flight by the latest room
}

// brakeSeed is a part of the seed from which drawBrake decides whether a run has a brake.
// The value is chosen so that no run in testdata/seeds has a brake. With a brake, these
// runs might not reproduce their faults.
const brakeSeed = 0xb4a6f

// drawBrake turns the brake on in some runs.
func drawBrake(seed uint64, s *settings) *brake {
	b := &brake{inFlight: 1, world: &world{rng: rand.New(rand.NewPCG(seed, brakeSeed))}}
	s.gate.Overload.Brake = !isFair(&s.gate.Overload) && b.chance(0.1)
	return b
}

// requestPage requests the page, which arrives after a random delay.
func (r *run) requestPage() {
	if r.isDone {
		return
	}
	r.brake.admissionsAtStart = r.gate.Admission.Admissions()
	r.afterIn(r.brake.rng, r.brake.spread(1, 20_000)*1000, r.applyPage)
}

// applyPage reports the room to the gate, and schedules the next request for the page.
func (r *run) applyPage() {
	if r.isDone {
		return
	}
	b, a := r.brake, r.gate.Admission
	room := pick(b.world, admission.NoRoom, 0, 0, 1, 1, 2, 5, 100, admission.AnyRoom)
	remaining := room - int64(a.Admissions()-b.admissionsAtStart)
	b.inFlight = max(a.InFlight(), 1, int(min(int64(a.InFlight())+remaining, 1<<20)))
	r.note("room for %d requests", room)
	a.SetRoom(room, b.admissionsAtStart)
	r.betweenEvents()
	r.afterIn(b.rng, b.spread(1, 50_000)*1000, r.requestPage)
}

// checkRoom checks that the requests in flight fit into the latest room. One request may
// be in flight without room.
func (r *run) checkRoom() {
	if n := r.gate.Admission.InFlight(); r.live.rules.Overload.Brake && n > r.brake.inFlight {
		r.found("%d requests are in flight, the upstream has room for %d", n, r.brake.inFlight)
	}
}

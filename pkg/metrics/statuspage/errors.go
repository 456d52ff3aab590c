package statuspage

import (
	"sync"
	"time"

	"go.uber.org/atomic"
)

// Bounds of Errors: 64 entries of at most 160 bytes of path.
const (
	keptErrors     = 64
	maxMethodBytes = 16
	maxPathBytes   = 160

	// perSecond is how many entries of one outcome are kept per second, so that
	// a storm of one does not wash away all others.
	perSecond = 8
)

// Failure is a request that was refused or has failed.
type Failure struct {
	At      time.Duration // on the gate's clock
	Took    time.Duration // since it arrived
	Outcome uint8         // index into the names that NewErrors was given
	Status  int
	Method  []byte
	Target  []byte // of which the path is kept, never the query
}

// Errors keeps the last failures, in some 13 KiB that it allocates with the
// first one. All methods may be called from any goroutine, Add on a nil Errors.
type Errors struct {
	total atomic.Uint64
	names []string

	mu      sync.Mutex
	entries *[keptErrors]entry
	kept    uint64   // ever; the newest is at (kept-1) % keptErrors
	second  int64    // that used counts in
	used    []uint8  // entries of this second by outcome
	latest  []uint64 // kept when its last entry was added, by outcome
}

type entry struct {
	at, took  time.Duration
	status    int
	outcome   uint8
	methodLen uint8
	pathLen   uint8
	cut       bool
	more      uint32 // of its outcome, in the same second, that were not kept
	method    [maxMethodBytes]byte
	path      [maxPathBytes]byte
}

// NewErrors knows outcomes by the index of their names.
func NewErrors(outcomes []string) *Errors {
	return &Errors{names: outcomes, used: make([]uint8, len(outcomes)), latest: make([]uint64, len(outcomes))}
}

// Add counts a failure and keeps what it says, unless another goroutine is
// about to add one, or there were 8 with its outcome in the same second; the
// last of these tells how many more came. It never waits.
func (e *Errors) Add(f *Failure) {
	if e == nil {
		return
	}
	e.total.Inc()
	if int(f.Outcome) >= len(e.names) || !e.mu.TryLock() {
		return
	}
	defer e.mu.Unlock()
	if second := int64(f.At / time.Second); second != e.second {
		e.second = second
		clear(e.used)
	}
	if e.used[f.Outcome] == perSecond {
		if latest := e.latest[f.Outcome]; latest+keptErrors > e.kept {
			e.entries[latest%keptErrors].more++
		}
		return
	}
	e.used[f.Outcome]++
	if e.entries == nil {
		e.entries = new([keptErrors]entry)
	}
	e.entries[e.kept%keptErrors].fill(f)
	e.latest[f.Outcome] = e.kept
	e.kept++
}

func (x *entry) fill(f *Failure) {
	path := pathOf(f.Target)
	x.at, x.took, x.status, x.outcome = f.At, f.Took, f.Status, f.Outcome
	x.methodLen = uint8(copy(x.method[:], f.Method))
	x.pathLen = uint8(copy(x.path[:], path))
	x.cut, x.more = len(path) > maxPathBytes, 0
}

// pathOf is the path of a request target, which may be in absolute form. Neither
// query nor authority, which could hold a password, is part of it.
func pathOf(target []byte) []byte {
	for i, c := range target {
		if c == '?' || c == '#' {
			target = target[:i]
			break
		}
	}
	if len(target) == 0 || target[0] == '/' {
		return target
	}
	slashes := 0
	for i, c := range target {
		if c != '/' {
			continue
		}
		if slashes++; slashes == 3 {
			return target[i:]
		}
	}
	return nil
}

// list returns the kept failures, newest first, and how many there were in all.
func (e *Errors) list() (total uint64, shown []failureJSON) {
	e.mu.Lock()
	defer e.mu.Unlock()
	total = e.total.Load()
	for i := e.kept; i > 0 && i+keptErrors > e.kept; i-- {
		x := &e.entries[(i-1)%keptErrors]
		shown = append(shown, failureJSON{
			At: millis(x.at), Took: milliseconds(x.took), Outcome: e.names[x.outcome], Status: x.status,
			Method: string(x.method[:x.methodLen]), Path: string(x.path[:x.pathLen]), Cut: x.cut, More: x.more,
		})
	}
	return total, shown
}

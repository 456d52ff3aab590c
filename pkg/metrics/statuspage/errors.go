package statuspage

import (
	"bytes"
	"sync"
	"time"

	"go.uber.org/atomic"

	"github.com/queuegate/queuegate/pkg/gate"
)

// Limits of Errors: 64 entries with at most 160 bytes of path.
const (
	maxErrors      = 64
	maxMethodBytes = 16
	maxPathBytes   = 160

	// perSecond limits the kept entries per outcome and second, so that a burst of
	// one outcome does not evict all others.
	perSecond = 8
)

// Errors counts failed requests and keeps the last ones. The first failure allocates
// about 13 KiB. All methods may be called concurrently. On a nil Errors, Add does
// nothing.
type Errors struct {
	refused, failed, clientErrors atomic.Uint64

	mu      sync.Mutex
	entries *[maxErrors]entry
	// numStored is the number of entries that were ever stored. Entries are numbered from 0;
	// the entry with the number n is stored at index n % maxErrors.
	numStored uint64
	second    int64 // second in which the newest entry was stored
	// used has, for each outcome, the number of entries stored in the same second as the
	// newest entry. At most perSecond entries are stored per outcome and second. The
	// index is the outcome.
	used []uint8
	// latest has, for each outcome, the number n of its newest entry. The index is the
	// outcome.
	latest []uint64
}

// failureCounts are the totals of Errors by class.
type failureCounts struct{ refused, failed, clientErrors uint64 }

func (t failureCounts) sum() uint64 { return t.refused + t.failed + t.clientErrors }

func (t failureCounts) minus(u failureCounts) failureCounts {
	return failureCounts{t.refused - u.refused, t.failed - u.failed, t.clientErrors - u.clientErrors}
}

type entry struct {
	at, took  time.Duration
	status    int
	outcome   gate.Outcome
	methodLen uint8
	pathLen   uint8
	cut       bool
	more      uint32 // further failures with this outcome in this second
	method    [maxMethodBytes]byte
	path      [maxPathBytes]byte
}

// NewErrors returns an empty Errors.
func NewErrors() *Errors {
	return &Errors{used: make([]uint8, gate.OutcomeSlots), latest: make([]uint64, gate.OutcomeSlots)}
}

// Add counts a failed request and keeps a copy of it, with its path but without its
// query. It never blocks: if another goroutine is using e, it keeps no copy.
// It keeps at most 8 copies per outcome and second.
func (e *Errors) Add(f *gate.Record) {
	if e == nil {
		return
	}
	switch gate.ClassOf(f.Outcome, f.Status) {
	case gate.ClassRejected:
		e.refused.Inc()
	case gate.ClassFailed:
		e.failed.Inc()
	case gate.ClassClientError:
		e.clientErrors.Inc()
	default:
		return
	}
	if !e.mu.TryLock() {
		return
	}
	defer e.mu.Unlock()
	if second := int64(f.Ended / time.Second); second != e.second {
		e.second = second
		clear(e.used)
	}
	if e.used[f.Outcome] == perSecond {
		if latest := e.latest[f.Outcome]; latest+maxErrors > e.numStored {
			e.entries[latest%maxErrors].more++
		}
		return
	}
	e.used[f.Outcome]++
	if e.entries == nil {
		e.entries = new([maxErrors]entry)
	}
	e.entries[e.numStored%maxErrors].fill(f)
	e.latest[f.Outcome] = e.numStored
	e.numStored++
}

func (x *entry) fill(f *gate.Record) {
	path := pathOf(f.Target)
	x.at, x.took, x.status, x.outcome = f.Ended, f.Took(), f.Status, f.Outcome
	x.methodLen = uint8(copy(x.method[:], f.Method))
	x.pathLen = uint8(copy(x.path[:], path))
	x.cut, x.more = len(path) > maxPathBytes, 0
}

// pathOf returns the path of a request target in origin form or absolute form. It
// omits query and authority, which may contain secrets.
func pathOf(target []byte) []byte {
	if i := bytes.IndexAny(target, "?#"); i >= 0 {
		target = target[:i]
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

func (e *Errors) totals() failureCounts {
	if e == nil {
		return failureCounts{}
	}
	return failureCounts{e.refused.Load(), e.failed.Load(), e.clientErrors.Load()}
}

// list returns the kept failures, newest first, and the totals.
func (e *Errors) list() (total failureCounts, shown []failureJSON) {
	e.mu.Lock()
	defer e.mu.Unlock()
	total, shown = e.totals(), []failureJSON{}
	for i := e.numStored; i > 0 && i+maxErrors > e.numStored; i-- {
		x := &e.entries[(i-1)%maxErrors]
		shown = append(shown, failureJSON{
			At: millis(x.at), Took: milliseconds(x.took), Status: x.status,
			Outcome: x.outcome.String(), Class: gate.ClassOf(x.outcome, x.status).String(),
			Method: string(x.method[:x.methodLen]), Path: string(x.path[:x.pathLen]), Cut: x.cut, More: x.more,
		})
	}
	return total, shown
}

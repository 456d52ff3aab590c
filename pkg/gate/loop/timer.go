package loop

// timer is the entry of a handle in the heap of timers. It never expires later than the
// deadline of the handle, but it may expire earlier: if the deadline moves to a later
// time, as it usually does, the timer keeps its time and its place in the heap. When it
// expires too early, it is rescheduled for the new deadline.
type timer struct {
	handle    *Handle
	expiresAt int64
	index     int // index in the heap plus 1; 0 = not in the heap
}

// timerHeap is a binary heap, earliest first.
type timerHeap []*timer

// ensure makes t expire at expiresAt or earlier.
func (h *timerHeap) ensure(t *timer, expiresAt int64) {
	if t.index != 0 {
		if t.expiresAt <= expiresAt {
			return
		}
		t.expiresAt = expiresAt
		h.up(t.index - 1)
		return
	}
	t.expiresAt = expiresAt
	*h = append(*h, t)
	t.index = len(*h)
	h.up(len(*h) - 1)
}

func (h *timerHeap) remove(t *timer) {
	if t.index == 0 {
		return
	}
	i, last := t.index-1, len(*h)-1
	h.swap(i, last)
	(*h)[last] = nil
	*h = (*h)[:last]
	t.index = 0
	if i < last {
		h.down(i)
		h.up(i)
	}
}

func (h *timerHeap) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if (*h)[parent].expiresAt <= (*h)[i].expiresAt {
			return
		}
		h.swap(i, parent)
		i = parent
	}
}

func (h *timerHeap) down(i int) {
	for {
		least := i
		for c := 2*i + 1; c <= 2*i+2 && c < len(*h); c++ {
			if (*h)[c].expiresAt < (*h)[least].expiresAt {
				least = c
			}
		}
		if least == i {
			return
		}
		h.swap(i, least)
		i = least
	}
}

func (h *timerHeap) swap(i, j int) {
	s := *h
	s[i], s[j] = s[j], s[i]
	s[i].index, s[j].index = i+1, j+1
}

// runTimers runs a step of each handle whose deadline has passed. It reschedules timers
// that have expired before the deadline of their handle. It also trims the free lists if
// the time of the next trim has come.
func (l *Loop) runTimers() {
	for len(l.timers) > 0 && l.timers[0].expiresAt <= l.now {
		t := l.timers[0]
		l.timers.remove(t)
		h := t.handle
		switch {
		case h.deadline == 0:
		case h.deadline > l.now:
			l.timers.ensure(t, h.deadline)
		default:
			h.deadline = 0
			h.routine.Step()
		}
	}
	if l.trimAt != 0 && l.trimAt <= l.now {
		l.freeLists.trim(l.now)
	}
}

// nextDeadline returns the time at which runTimers must be called next, because a timer
// expires or the free lists must be trimmed; 0 = no such time.
func (l *Loop) nextDeadline() int64 {
	next := l.trimAt
	if len(l.timers) > 0 && (next == 0 || l.timers[0].expiresAt < next) {
		next = l.timers[0].expiresAt
	}
	return next
}

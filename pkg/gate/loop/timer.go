package loop

// timer is the entry of a handle in the heap. It never expires later than the handle's
// deadline. If the deadline has moved later, the usual case, the timer expires too early
// once and is rescheduled.
type timer struct {
	handle *Handle
	when   int64
	index  int // index in the heap plus 1; 0 = not in the heap
}

// timerHeap is a binary heap, earliest first.
type timerHeap []*timer

// ensure makes t expire at when or earlier.
func (h *timerHeap) ensure(t *timer, when int64) {
	if t.index != 0 {
		if t.when <= when {
			return
		}
		t.when = when
		h.up(t.index - 1)
		return
	}
	t.when = when
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
		if (*h)[parent].when <= (*h)[i].when {
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
			if (*h)[c].when < (*h)[least].when {
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

// runTimers runs the steps of expired deadlines and reschedules timers that expired too
// early.
func (l *Loop) runTimers() {
	for len(l.timers) > 0 && l.timers[0].when <= l.now {
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

// nextDeadline returns the time of the first timer or trim; 0 = none.
func (l *Loop) nextDeadline() int64 {
	next := l.trimAt
	if len(l.timers) > 0 && (next == 0 || l.timers[0].when < next) {
		next = l.timers[0].when
	}
	return next
}

package simulate

import (
	"net/netip"
	"runtime/debug"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/queuegate/queuegate/pkg/gate/loop"
)

// kernel is a simulated loop.Kernel: descriptors, their readiness, and loops.
type kernel struct {
	*world
	files      []*file // indexed by descriptor
	limit      int     // maximum number of descriptors
	loops      []*loopState
	maxDelay   int64 // maximum delay of an iteration by other processes
	partial    bool  // a poll may omit ready descriptors
	connect    func(*link) (listening, atOnce bool)
	sentUp     func(*link, []byte) // called when the gate writes to the container
	settings   linkSettings
	links      int
	plenty     bool // descriptors are not scarce
	gateEnding bool
	closedLate int
	live       []*link // links whose gate end is open
	logging    bool    // keep link.log of the clients' links
}

type loopState struct {
	loop      *loop.Loop
	ready     []*file
	scheduled bool  // an iteration is scheduled
	timerAt   int64 // time of a scheduled iteration for timers; 0 = none
	isDone    bool
	closing   bool
	iterate   func()
	spins     int // consecutive iterations with due timers and without events
	polls     int // calls of Poll in this iteration
	woken     bool
}

type file struct {
	fd     int
	link   *link     // set for a socket
	listen *backlog  // set for a listening socket
	pipe   *pipeFile // set for an end of a pipe

	loop   *loopState // loop that watches the file; nil = none
	event  unix.EpollEvent
	queued bool // the file is in loop.ready
	linger bool // a close sends RST
}

const pipeCapacity = 64 << 10

type pipeFile struct{ data []byte }

type backlog struct {
	waiting []*link
	most    int
	files   []*file // descriptors of the listener; empty after the close
}

const edgeTriggered = 1 << 31

func (k *kernel) open(f *file) (int, error) {
	for fd := 3; fd < k.limit; fd++ {
		if fd == len(k.files) {
			k.files = append(k.files, nil)
		}
		if k.files[fd] == nil {
			f.fd = fd
			k.files[fd] = f
			return fd, nil
		}
	}
	return -1, unix.EMFILE
}

func (k *kernel) openFiles() (n int) {
	for _, f := range k.files {
		if f != nil {
			n++
		}
	}
	return n
}

func newKernel(w *world) *kernel {
	k := &kernel{world: w, files: make([]*file, 3), limit: 1 << 16}
	w.betweenEvents = k.wakeMarked
	return k
}

func (k *kernel) Attach(l *loop.Loop) {
	s := &loopState{loop: l}
	s.iterate = func() { k.iterate(s) }
	k.loops = append(k.loops, s)
	k.wake(s)
}

func (k *kernel) Nanotime() int64 { return k.now }

// WakeUp marks the loop for wakeMarked, which has a fixed order.
func (k *kernel) WakeUp(l *loop.Loop) { k.stateOf(l).woken = true }

func (k *kernel) wakeMarked() {
	for _, s := range k.loops {
		if s.woken {
			s.woken = false
			k.wake(s)
		}
	}
}

func (k *kernel) stateOf(l *loop.Loop) *loopState {
	for _, s := range k.loops {
		if s.loop == l {
			return s
		}
	}
	panic("a loop that was not attached")
}

// wake schedules an iteration.
func (k *kernel) wake(s *loopState) {
	if s.scheduled || s.isDone {
		return
	}
	s.scheduled = true
	delay := int64(0)
	if k.maxDelay > 0 && k.rng.IntN(8) == 0 {
		delay = k.rng.Int64N(k.maxDelay)
	}
	k.schedule(delay, s.iterate)
}

func (k *kernel) iterate(s *loopState) {
	s.scheduled = false
	if s.isDone {
		return
	}
	s.polls = 0
	idle := len(s.ready) == 0
	next, isDone := k.attempt(s)
	s.isDone = isDone
	if isDone {
		return
	}
	if len(s.ready) > 0 {
		k.wake(s)
	}
	if !idle || next == 0 || next > k.now+spinThreshold {
		s.spins = 0
	} else if s.spins++; s.spins > maxSpins {
		k.found("a loop spins: after %d idle iterations it still has a timer that is due at once", s.spins)
	}
	if next != 0 && (s.timerAt == 0 || next < s.timerAt) {
		s.timerAt = next
		k.schedule(next-k.now, func() {
			if s.timerAt == next {
				s.timerAt = 0
				k.wake(s)
			}
		})
	}
}

// Limits on iterations that advance the clock by at most spinThreshold. An expired timer
// fires a nanosecond later, so a loop that sets it again and again spins.
const (
	spinThreshold = microsecond
	maxSpins      = 1000
	maxPolls      = 1 << 20
)

// attempt runs an iteration and reports a panic as a finding.
func (k *kernel) attempt(s *loopState) (next int64, isDone bool) {
	defer func() {
		if v := recover(); v != nil {
			k.found("panic: %v\n%s", v, debug.Stack())
		}
	}()
	return s.loop.RunOnce()
}

func (k *kernel) Watch(l *loop.Loop, fd int, event unix.EpollEvent) error {
	f := k.files[fd]
	if f == nil || f.loop != nil {
		k.found("BUG: descriptor %d is already watched, or is not open", fd)
		return unix.EBADF
	}
	f.loop, f.event = k.stateOf(l), event
	if k.maskOf(f) != 0 {
		k.readinessChanged(f)
	}
	return nil
}

func (k *kernel) Unwatch(_ *loop.Loop, fd int) { k.unwatch(k.files[fd]) }

func (k *kernel) unwatch(f *file) {
	if f.loop == nil {
		return
	}
	if f.queued {
		f.queued = false
		f.loop.ready = slices.DeleteFunc(f.loop.ready, func(x *file) bool { return x == f })
	}
	f.loop = nil
}

// readinessChanged queues f for its loop.
func (k *kernel) readinessChanged(f *file) {
	if f == nil || f.loop == nil || f.loop.isDone {
		return
	}
	if !f.queued {
		f.queued = true
		f.loop.ready = append(f.loop.ready, f)
	}
	k.wake(f.loop)
}

func (k *kernel) maskOf(f *file) (mask uint32) {
	switch {
	case f.link != nil:
		mask = f.link.mask()
	case f.listen != nil && len(f.listen.waiting) > 0:
		mask = unix.EPOLLIN
	}
	return mask & (f.event.Events | unix.EPOLLERR | unix.EPOLLHUP)
}

// Poll returns ready descriptors in random order.
func (k *kernel) Poll(l *loop.Loop, events []unix.EpollEvent) (n int, more bool) {
	s := k.stateOf(l)
	if s.polls++; s.polls > maxPolls {
		panic("an iteration of the loop does not end")
	}
	if len(s.ready) == 0 {
		return 0, false
	}
	ready := s.ready
	if k.shuffle && len(ready) > 1 {
		k.rng.Shuffle(len(ready), func(i, j int) { ready[i], ready[j] = ready[j], ready[i] })
	}
	most := min(len(ready), len(events))
	if k.partial && most > 1 && k.rng.IntN(2) == 0 {
		most = 1 + k.rng.IntN(most)
	}
	var remaining []*file
	for i, f := range ready {
		if i >= most {
			more = true
			remaining = append(remaining, ready[i:]...)
			break
		}
		mask := k.maskOf(f)
		f.queued = false
		if mask == 0 {
			continue
		}
		ev := f.event
		ev.Events = mask
		events[n] = ev
		n++
		if f.event.Events&edgeTriggered == 0 {
			f.queued = true
			remaining = append(remaining, f)
		}
	}
	s.ready = append(ready[:0], remaining...)
	return n, more
}

func (k *kernel) Read(fd int, b []byte) (int, syscall.Errno) {
	c := k.files[fd].link
	n, e := c.read(b)
	k.mix(1, uint64(fd), uint64(n), uint64(e))
	if k.tracing {
		k.note("gate   %s read %d: %s", c, n, outcomeText(e, n, b))
	}
	return n, e
}

func (k *kernel) Peek(fd int) (int, syscall.Errno) {
	n, e := k.files[fd].link.peek()
	k.mix(2, uint64(fd), uint64(n), uint64(e))
	return n, e
}

func (k *kernel) Send(fd int, b []byte) (int, syscall.Errno) {
	c := k.files[fd].link
	n, e := c.write(b)
	k.mix(3, uint64(fd), uint64(n), uint64(e))
	if k.tracing {
		k.note("gate   %s write %d of %d: %s", c, n, len(b), outcomeText(e, n, b))
	}
	return n, e
}

// Unsent returns the number of bytes that the peer has not read.
func (k *kernel) Unsent(fd int) int {
	c := k.files[fd].link
	return len(c.out) - c.outAt
}

// Unread returns the number of bytes in the gate's receive buffer.
func (k *kernel) Unread(fd int) int { return k.files[fd].link.unread() }

func outcomeText(e syscall.Errno, n int, b []byte) string {
	if e != 0 {
		return e.Error()
	}
	if n == 0 {
		return "end"
	}
	return printable(b[:n])
}

func (k *kernel) Shutdown(fd int) {
	c := k.files[fd].link
	k.mix(4, uint64(fd))
	k.note("gate   %s shutdown", c)
	c.shutdownWrite()
}

func (k *kernel) Reset(fd int) { k.files[fd].linger = true }

func (k *kernel) Close(fd int) {
	f := k.files[fd]
	k.mix(5, uint64(fd))
	if f == nil {
		k.found("descriptor %d is closed twice", fd)
		return
	}
	k.unwatch(f)
	k.files[fd] = nil
	switch {
	case f.link != nil:
		if k.gateEnding {
			k.closedLate++ // an ending loop does not update the descriptor budget
		}
		if i := slices.Index(k.live, f.link); i >= 0 {
			last := len(k.live) - 1
			k.live[i] = k.live[last]
			k.live = k.live[:last]
		}
		f.link.closeByGate(f.linger)
	case f.listen != nil:
		b := f.listen
		b.files = slices.DeleteFunc(b.files, func(x *file) bool { return x == f })
		if len(b.files) == 0 {
			k.note("gate   closes the listener with %d in its backlog", len(b.waiting))
			if len(b.waiting) > 0 && k.plenty && k.fault == "" {
				k.found("the listener is closed with %d connections in its backlog", len(b.waiting))
			}
			for _, c := range b.waiting {
				c.rejectedByGate()
			}
			b.waiting = nil
		}
	}
}

// listenOn opens n descriptors of one listening socket.
func (k *kernel) listenOn(b *backlog, n int) (fds []int) {
	for range n {
		f := &file{listen: b}
		fd, err := k.open(f)
		if err != nil {
			panic(err)
		}
		b.files = append(b.files, f)
		fds = append(fds, fd)
	}
	return fds
}

// arrive adds a connection to the backlog, and wakes one of its loops. listening is false
// without a listener, room is false if the backlog is full.
func (k *kernel) arrive(b *backlog, c *link) (listening, room bool) {
	switch {
	case len(b.files) == 0:
		return false, false
	case len(b.waiting) >= b.most:
		return true, false
	}
	b.waiting = append(b.waiting, c)
	from := k.rng.IntN(len(b.files))
	for i := range b.files {
		if f := b.files[(from+i)%len(b.files)]; f.loop != nil {
			k.readinessChanged(f)
			break
		}
	}
	return true, true
}

func (k *kernel) Accept(fd int) (int, netip.AddrPort, error) {
	b := k.files[fd].listen
	if len(b.waiting) == 0 {
		return -1, netip.AddrPort{}, unix.EAGAIN
	}
	c := b.waiting[0]
	f := &file{link: c}
	conn, err := k.open(f)
	if err != nil {
		return -1, netip.AddrPort{}, err
	}
	b.waiting = b.waiting[1:]
	if c.reset && k.rng.IntN(2) == 0 {
		k.files[conn] = nil
		return -1, netip.AddrPort{}, unix.ECONNABORTED
	}
	c.file, c.state, c.acceptedAt = f, established, k.now
	k.live = append(k.live, c)
	k.mix(6, uint64(conn), uint64(c.id))
	k.note("gate   %s accepted as %d", c, conn)
	return conn, c.address, nil
}

func (k *kernel) Acceptable(fd int) bool { return len(k.files[fd].listen.waiting) > 0 }

func (k *kernel) Connect(netip.AddrPort) (int, error) {
	f := &file{}
	fd, err := k.open(f)
	if err != nil {
		return -1, err
	}
	c := k.newLink("up")
	listening, atOnce := k.connect(c)
	if !listening && atOnce {
		k.files[fd] = nil
		k.note("gate   %s refused", c)
		return -1, loop.ErrRefused
	}
	f.link, c.file, c.state = c, f, connecting
	k.live = append(k.live, c)
	k.mix(7, uint64(fd))
	k.note("gate   %s connects as %d", c, fd)
	if atOnce {
		c.state = established
	}
	return fd, nil
}

func (k *kernel) Connected(fd int) bool {
	c := k.files[fd].link
	return c.state == established && !c.reset
}

func (k *kernel) Pipe() (int, int, error) {
	p := &pipeFile{}
	r, w := &file{pipe: p}, &file{pipe: p}
	a, err := k.open(r)
	if err != nil {
		return -1, -1, err
	}
	b, err := k.open(w)
	if err != nil {
		k.files[a] = nil
		return -1, -1, err
	}
	return a, b, nil
}

func (k *kernel) Splice(from, to, n int) (int, error) {
	a, b := k.files[from], k.files[to]
	if a.link != nil {
		room := min(n, pipeCapacity-len(b.pipe.data))
		if k.partial {
			room = min(room, 1+k.rng.IntN(room))
		}
		p := b.pipe
		at := len(p.data)
		p.data = slices.Grow(p.data, room)
		got, e := a.link.read(p.data[at : at+room])
		k.mix(8, uint64(from), uint64(got), uint64(e))
		k.note("gate   %s splice in %d: %v", a.link, got, e)
		if e != 0 {
			return 0, e
		}
		p.data = p.data[:at+got]
		return got, nil
	}
	part := a.pipe.data[:min(n, len(a.pipe.data))]
	if k.partial && len(part) > 1 {
		part = part[:1+k.rng.IntN(len(part))]
	}
	got, e := b.link.write(part)
	k.mix(9, uint64(to), uint64(got), uint64(e))
	k.note("gate   %s splice out %d: %v", b.link, got, e)
	if e != 0 {
		return 0, e
	}
	a.pipe.data = a.pipe.data[:copy(a.pipe.data, a.pipe.data[got:])]
	return got, nil
}

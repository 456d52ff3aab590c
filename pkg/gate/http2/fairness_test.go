package http2

import (
	"net/http"
	"strings"
	"testing"

	"github.com/queuegate/queuegate/pkg/gate/loop"
	"github.com/queuegate/queuegate/pkg/gate/wire/h2"
)

// If each SETTINGS woke every stream, a client with hundreds of streams could occupy the
// loop with hundreds of SETTINGS.
func TestSETTINGSWakeOnlyStreamsWhoseWindowTheyOpen(t *testing.T) {
	for _, row := range []struct {
		name        string
		started     bool // the response head has been written
		window, now uint32
		wakes       int
	}{
		{"a window opens after the response head", true, 0, 1, 1},
		{"a window opens before the response head", false, 0, 1, 0},
		{"an open window grows", true, 1, 2, 0},
		{"a window closes", true, 1, 0, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			var c downConn
			c.settings = h2.DefaultSettings()
			c.settings.InitialWindow = row.window
			s, wakes := &downStream{}, 0
			s.x.Bind(nil, nil, func() { wakes++ }, nil)
			s.begin(&c.conn, &s.x, 1, h2.Open)
			if row.started {
				s.sendState = sendOpen
			}
			c.table.open = []*downStream{s}
			change, err := c.settings.Apply([]byte("\x00\x04"+u32(row.now)), false)
			if err == nil {
				err = c.table.changeWindows(change)
			}
			if left := s.send.Credit(); err != nil || wakes != row.wakes || left != int(row.now) {
				t.Errorf("woken %d times with a window of %d (%v), want %d times", wakes, left, err, row.wakes)
			}
		})
	}
}

// iterationMeter measures how many frames an engine handles per iteration of the loop.
type iterationMeter struct {
	handle loop.Handle
	eng    *Engine
	before uint32 // frames in all earlier iterations
	most   uint32 // frames in one iteration
	done   bool
}

// Step implements loop.Routine. It runs once per iteration.
func (m *iterationMeter) Step() {
	if !m.done {
		m.most, m.before = max(m.most, m.eng.frames-m.before), m.eng.frames
		m.handle.Wake()
	}
}

func TestAConnectionHasAQuotaPerIteration(t *testing.T) {
	const head = h2.FrameHeaderLen
	for _, row := range []struct {
		name   string
		size   int // size of each frame in bytes
		frames int
		bodies bool // the connection carries request bodies
		most   int  // maximum number of frames handled in an iteration
	}{
		{"small frames: 4 KiB", 15, 900, false, headReadBytes/15 + 1},
		{"larger frames: 64, and the rest of a read", 100, 300, false, framesPerEvent + headReadBytes/100},
		{"large frames: four reads", 4000, 12, false, readsPerEvent*headReadBytes/4000 + 1},
		{"with request bodies: reads of 64 KiB", 4000, 12, true, 12},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := newRig(t, serveHTTP1(t, func(http.ResponseWriter, *http.Request) {}))
			client := r.dial()
			client.works()
			m, first := &iterationMeter{eng: r.part}, uint32(0)
			sent := []byte(strings.Repeat(string(frame(0xbe, 0, 0, strings.Repeat("x", row.size-head))), row.frames))
			r.on(func() {
				for c := range r.part.clients.all() {
					if row.bodies {
						c.recv = h2.NewReceiveWindow(connWindow)
					}
					if _, err := client.conn.Write(sent); err != nil {
						t.Fatal(err)
					}
					peeked := make([]byte, len(sent))
					until(t, "all bytes sent", func() bool { return c.sock.Peek(peeked) == len(sent) })
				}
				first = m.eng.frames
				m.before = first
				m.handle.Bind(m.eng.loop, m)
				m.handle.Wake()
			})
			until(t, "all frames", func() (all bool) {
				r.on(func() {
					all = m.eng.frames-first >= uint32(row.frames)
					m.done = all
				})
				return all
			})
			if n := int(m.most); n > row.most || n < row.most/2 {
				t.Errorf("%d frames in an iteration, want at most %d", n, row.most)
			}
			client.works()
		})
	}
}

func TestConnectionsReadFewerBytesAfterManyFramesInAnIteration(t *testing.T) {
	const clients, frames, size = 12, 300, 15
	r := newRig(t, serveHTTP1(t, func(http.ResponseWriter, *http.Request) {}))
	sent := []byte(strings.Repeat(string(frame(0xbe, 0, 0, strings.Repeat("x", size-h2.FrameHeaderLen))), frames))
	var all []*client
	for range clients {
		all = append(all, r.dial())
		all[len(all)-1].works()
	}
	m, first := &iterationMeter{eng: r.part}, uint32(0)
	r.on(func() {
		for _, c := range all {
			if _, err := c.conn.Write(sent); err != nil {
				t.Fatal(err)
			}
		}
		peeked := make([]byte, len(sent))
		for c := range r.part.clients.all() {
			until(t, "all bytes sent", func() bool { return c.sock.Peek(peeked) == len(sent) })
		}
		first = m.eng.frames
		m.before = first
		m.handle.Bind(m.eng.loop, m)
		m.handle.Wake()
	})
	until(t, "all frames", func() (over bool) {
		r.on(func() {
			over = m.eng.frames-first >= clients*frames
			m.done = over
		})
		return over
	})
	if most := headReadBytes/size + 1 + (clients-1)*(fewHeadReadBytes/size+1); int(m.most) > most || int(m.most) < most/2 {
		t.Errorf("%d frames in an iteration, want at most %d", m.most, most)
	}
	for _, c := range all {
		c.works()
	}
}

package http2

import (
	"net/http"
	"strings"
	"testing"

	"github.com/queuegate/queuegate/pkg/gate/loop"
	"github.com/queuegate/queuegate/pkg/gate/wire/h2"
)

// TestSETTINGSWakeOnlyStreamsWhoseWindowTheyOpen: a client may have hundreds, and
// send hundreds of SETTINGS.
func TestSETTINGSWakeOnlyStreamsWhoseWindowTheyOpen(t *testing.T) {
	for _, row := range []struct {
		name        string
		started     bool // the answer's head has been written
		window, now uint32
		wakes       int
	}{
		{"a window opens to an answer that has begun", true, 0, 1, 1},
		{"a window opens to one that has not", false, 0, 1, 0},
		{"a window that is open becomes wider", true, 1, 2, 0},
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
			if left := s.send.Left(); err != nil || wakes != row.wakes || left != int(row.now) {
				t.Errorf("woken %d times with a window of %d (%v), want %d times", wakes, left, err, row.wakes)
			}
		})
	}
}

// turnMeter notes how many frames its engine handles in a turn of the loop.
type turnMeter struct {
	handle loop.Handle
	eng    *Engine
	before uint32 // in all earlier turns
	most   uint32 // in one
	over   bool
}

// Step implements loop.Routine. once in each turn.
func (m *turnMeter) Step() {
	if !m.over {
		m.most, m.before = max(m.most, m.eng.frames-m.before), m.eng.frames
		m.handle.Wake()
	}
}

// TestAConnectionHasAQuotaPerIteration: what a client has sent at once is read in
// portions, and others have their turn between them.
func TestAConnectionHasAQuotaPerIteration(t *testing.T) {
	const head = h2.FrameHeaderLen
	for _, row := range []struct {
		name   string
		size   int // of a frame
		frames int
		bodies bool // the connection carries some
		most   int  // frames in a turn
	}{
		{"of small frames a portion of 4 KiB", 15, 900, false, headReadBytes/15 + 1},
		{"of larger ones 64, and the rest of a portion", 100, 300, false, framesPerEvent + headReadBytes/100},
		{"of large ones four portions", 4000, 12, false, readsPerEvent*headReadBytes/4000 + 1},
		{"where it carries bodies, portions of 64 KiB", 4000, 12, true, 12},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := newRig(t, serveHTTP1(t, func(http.ResponseWriter, *http.Request) {}))
			client := r.dial()
			client.works()
			m, first := &turnMeter{eng: r.part}, uint32(0)
			sent := []byte(strings.Repeat(string(frame(0xbe, 0, 0, strings.Repeat("x", row.size-head))), row.frames))
			r.on(func() {
				for c := range r.part.clients.all() {
					if row.bodies {
						c.recv = h2.NewReceiveWindow(connWindow)
					}
					if _, err := client.conn.Write(sent); err != nil {
						t.Fatal(err)
					}
					there := make([]byte, len(sent))
					until(t, "all that was sent", func() bool { return c.sock.Peek(there) == len(sent) })
				}
				first = m.eng.frames
				m.before = first
				m.handle.Bind(m.eng.loop, m)
				m.handle.Wake()
			})
			until(t, "all frames", func() (all bool) {
				r.on(func() {
					all = m.eng.frames-first >= uint32(row.frames)
					m.over = all
				})
				return all
			})
			if n := int(m.most); n > row.most || n < row.most/2 {
				t.Errorf("%d frames in a turn, want at most %d", n, row.most)
			}
			client.works()
		})
	}
}

// TestManyConnectionsShareAnIteration: they take smaller portions once many frames
// have been handled in it.
func TestManyConnectionsShareAnIteration(t *testing.T) {
	const clients, frames, size = 12, 300, 15
	r := newRig(t, serveHTTP1(t, func(http.ResponseWriter, *http.Request) {}))
	sent := []byte(strings.Repeat(string(frame(0xbe, 0, 0, strings.Repeat("x", size-h2.FrameHeaderLen))), frames))
	var all []*client
	for range clients {
		all = append(all, r.dial())
		all[len(all)-1].works()
	}
	m, first := &turnMeter{eng: r.part}, uint32(0)
	r.on(func() {
		for _, c := range all {
			if _, err := c.conn.Write(sent); err != nil {
				t.Fatal(err)
			}
		}
		there := make([]byte, len(sent))
		for c := range r.part.clients.all() {
			until(t, "all that was sent", func() bool { return c.sock.Peek(there) == len(sent) })
		}
		first = m.eng.frames
		m.before = first
		m.handle.Bind(m.eng.loop, m)
		m.handle.Wake()
	})
	until(t, "all frames", func() (over bool) {
		r.on(func() {
			over = m.eng.frames-first >= clients*frames
			m.over = over
		})
		return over
	})
	if most := headReadBytes/size + 1 + (clients-1)*(fewHeadReadBytes/size+1); int(m.most) > most || int(m.most) < most/2 {
		t.Errorf("%d frames in a turn, want at most %d", m.most, most)
	}
	for _, c := range all {
		c.works()
	}
}

package top

import (
	"os"
	"strings"

	"golang.org/x/term"
)

// Control sequences of the screen. They do not ask the terminal for a reply, because the
// first frame would have to wait for that reply.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l\x1b[H\x1b[2J" // alternate screen, cursor hidden
	leaveScreen = "\x1b[?25h\x1b[?1049l"
	frameStart  = "\x1b[H"
	lineEnd     = "\x1b[K"
	frameEnd    = "\x1b[J"
)

// Run shows the view on out, with keys from in, until the user quits or the view's
// context ends.
func (m *Model) Run(in, out *os.File) error {
	if term.IsTerminal(int(in.Fd())) {
		before, err := term.MakeRaw(int(in.Fd()))
		if err != nil {
			return err
		}
		defer func() { _ = term.Restore(int(in.Fd()), before) }()
		go m.readKeys(in)
	}
	m.plain = os.Getenv("NO_COLOR") != ""
	if _, err := out.WriteString(enterScreen); err != nil {
		return err
	}
	defer func() { _, _ = out.WriteString(leaveScreen) }()
	for _, g := range m.gates {
		go m.poll(g)
	}
	if m.list != nil {
		go m.pollList()
	}
	shown := ""
	for {
		if frame := m.frame(out); frame != shown {
			if _, err := out.WriteString(frame); err != nil {
				return err
			}
			shown = frame
		}
		select {
		case e := <-m.events:
			quit, added := m.update(e)
			if quit {
				return nil
			}
			for _, g := range added {
				go m.poll(g)
			}
		case <-m.ctx.Done():
			return nil
		}
	}
}

// escape is the Escape key, and the first byte of a special key. readKeys expects that
// one read returns all bytes of a key.
const escape = "\x1b"

func (m *Model) readKeys(in *os.File) {
	buffer := make([]byte, 64)
	for {
		n, err := in.Read(buffer)
		if err != nil {
			return
		}
		keys := []string{string(buffer[:n])}
		if !strings.HasPrefix(keys[0], escape) {
			keys = strings.Split(keys[0], "")
		}
		for _, k := range keys {
			select {
			case m.events <- key(k):
			case <-m.ctx.Done():
				return
			}
		}
	}
}

// frame returns the view, cut to the size of the terminal.
func (m *Model) frame(out *os.File) string {
	height := 0
	if columns, rows, err := term.GetSize(int(out.Fd())); err == nil && columns > 0 {
		m.width, height = columns, rows
	}
	lines := strings.Split(m.view(), "\n")
	if height > 0 {
		lines = lines[:min(len(lines), height)]
	}
	return frameStart + strings.Join(lines, lineEnd+"\r\n") + lineEnd + frameEnd
}

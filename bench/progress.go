package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// A progress tells what is being measured: on a terminal in one line that
// changes, elsewhere in a line for each scenario of each round.
type progress struct {
	out      io.Writer
	terminal bool
	rounds   int
	last     string
}

func newProgress(out io.Writer, rounds int) *progress {
	p := &progress{out: out, rounds: rounds}
	if f, ok := out.(*os.File); ok {
		_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
		p.terminal = err == nil
	}
	return p
}

func (p *progress) show(round int, scenario, target string, left time.Duration) {
	what := fmt.Sprintf("round %d/%d  %s", round, p.rounds, scenario)
	if p.terminal {
		fmt.Fprintf(p.out, "\r\x1b[K%s  %s  %s left", what, target, roughly(left))
		return
	}
	if what != p.last {
		fmt.Fprintf(p.out, "%s  %s left\n", what, roughly(left))
		p.last = what
	}
}

func (p *progress) end() {
	if p.terminal {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}

// roughly rounds to what a reader wants to know.
func roughly(d time.Duration) time.Duration {
	switch {
	case d > 10*time.Minute:
		return d.Round(time.Minute)
	case d > time.Minute:
		return d.Round(10 * time.Second)
	}
	return d.Round(time.Second)
}

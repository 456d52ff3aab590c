package check

import (
	"context"
	"errors"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/queuegate/queuegate/internal/testkit/leak"
	"github.com/queuegate/queuegate/pkg/probe/check/checktest"
)

func TestMain(m *testing.M) { leak.Main(m) }

func probeOnce(t *testing.T, p Checker) Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), checktest.FailSafe)
	defer cancel()
	return p.Check(ctx)
}

// probeBriefly runs one check with a short deadline, for servers that never respond. On a
// busy machine the deadline may pass before the connection is open. Then probeBriefly runs
// another check with a longer deadline.
func probeBriefly(t *testing.T, p Checker) (r Result) {
	t.Helper()
	for timeout := 50 * time.Millisecond; !r.Reached && timeout < checktest.FailSafe/4; timeout *= 2 {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		r = p.Check(ctx)
		cancel()
	}
	return r
}

func httpAt(port int, change ...func(*HTTP)) *HTTP {
	p := &HTTP{Address: addressOf(port), Path: "/"}
	for _, f := range change {
		f(p)
	}
	return p
}

func overTLS(p *HTTP) { p.TLS = true }

func path(to string) func(*HTTP) { return func(p *HTTP) { p.Path = to } }

func addressOf(port int) string { return "127.0.0.1:" + strconv.Itoa(port) }

func openFiles(t *testing.T) int {
	t.Helper()
	n := 0
	for fd := range 4096 {
		var st syscall.Stat_t
		if err := syscall.Fstat(fd, &st); !errors.Is(err, syscall.EBADF) {
			n++
		}
	}
	return n
}

package check

import (
	"context"
	"errors"
	"strconv"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/queuegate/queuegate/pkg/probe/check/checktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func probeOnce(t *testing.T, p Checker) Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), checktest.FailSafe)
	defer cancel()
	return p.Check(ctx)
}

// probeBriefly runs one check with a short deadline, for servers that never respond.
func probeBriefly(t *testing.T, p Checker) Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	return p.Check(ctx)
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

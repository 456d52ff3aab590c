package application

import (
	"context"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

func TestAnApplicationThatDoesNotListenIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, log := observer.New(zapcore.DebugLevel)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		start := time.Now()
		a := &Process{pid: -1, exited: make(chan struct{})}
		if port := a.FindPort(ctx, 8080, zap.New(core)); port != 0 || time.Since(start) != time.Minute {
			t.Errorf("port %d after %v", port, time.Since(start))
		}
		lines := log.All()
		if len(lines) != 1 || lines[0].Level != zapcore.WarnLevel || lines[0].Time.Sub(start) < silentTime || lines[0].Time.Sub(start) > silentTime+longestPause {
			t.Errorf("%+v", lines)
		}
	})
}

func TestAUsedPortIsNotChosen(t *testing.T) {
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	if other := ChoosePort(port); other == port || other == 0 {
		t.Errorf("%d instead of %d, which is taken", other, port)
	}
	if err := CheckFree(port); err == nil {
		t.Errorf("port %d is free", port)
	}
}

func TestSeveralPortsAreListedWithCommasAndAnd(t *testing.T) {
	for want, of := range map[string][]int{"1": {1}, "1 and 2": {1, 2}, "1, 2 and 3": {1, 2, 3}} {
		if got := listed(of); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	var all []listener
	for _, text := range []string{"[::]:9", "127.0.0.1:8", "0.0.0.0:9"} {
		all = append(all, listener{address: mustAddress(text)})
	}
	if got := ports(all); !slices.Equal(got, []int{8, 9}) {
		t.Errorf("%v", got)
	}
}

package app

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

// keepProcessors restores GOMAXPROCS after the test.
func keepProcessors(t *testing.T, setting string) {
	before := runtime.GOMAXPROCS(0)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
	t.Setenv("GOMAXPROCS", setting)
}

// processorsAfter returns GOMAXPROCS after d has passed.
func processorsAfter(d time.Duration) int {
	time.Sleep(d)
	synctest.Wait()
	return runtime.GOMAXPROCS(0)
}

func TestOneProcessorIsUsedWhileTheContainerDoesNotListen(t *testing.T) {
	keepProcessors(t, "")
	synctest.Test(t, func(t *testing.T) {
		runtime.GOMAXPROCS(7)
		p := newProcessors()
		p.listening(false)
		if n := processorsAfter(fewAfter - 1); n != 7 {
			t.Errorf("%d processors already before %v, want 7", n, fewAfter)
		}
		p.listening(false)
		if n := processorsAfter(1); n != 1 {
			t.Errorf("%d processors while the container does not listen, want 1", n)
		}
		p.listening(true)
		got := runtime.GOMAXPROCS(0)
		runtime.SetDefaultGOMAXPROCS()
		if want := runtime.GOMAXPROCS(0); got != want {
			t.Errorf("%d processors once it listens, want the default of %d", got, want)
		}
	})
}

func TestAQuickRestartDoesNotChangeGOMAXPROCS(t *testing.T) {
	keepProcessors(t, "")
	synctest.Test(t, func(t *testing.T) {
		runtime.GOMAXPROCS(7)
		p := newProcessors()
		p.listening(false)
		processorsAfter(fewAfter / 2)
		p.listening(true)
		if n := processorsAfter(2 * fewAfter); n != 7 {
			t.Errorf("%d processors, want 7 as before", n)
		}
	})
}

func TestGOMAXPROCSSetByTheUserIsNotChanged(t *testing.T) {
	keepProcessors(t, "3")
	synctest.Test(t, func(t *testing.T) {
		runtime.GOMAXPROCS(3)
		newProcessors().listening(false)
		if n := processorsAfter(2 * fewAfter); n != 3 {
			t.Errorf("%d processors, want the 3 that the user chose", n)
		}
	})
}

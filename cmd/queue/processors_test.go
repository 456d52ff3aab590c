package main

import (
	"runtime"
	"testing"
)

func TestOneProcessorIsUsedWhileTheContainerDoesNotListen(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
	t.Setenv("GOMAXPROCS", "")
	p := newProcessors()
	p.listening(false)
	p.listening(false)
	if n := runtime.GOMAXPROCS(0); n != 1 {
		t.Errorf("%d processors while the container does not listen, want 1", n)
	}
	p.listening(true)
	runtime.SetDefaultGOMAXPROCS()
	want := runtime.GOMAXPROCS(0)
	p.listening(false)
	p.listening(true)
	if n := runtime.GOMAXPROCS(0); n != want {
		t.Errorf("%d processors once it listens, want the default of %d", n, want)
	}
}

func TestGOMAXPROCSOfTheUserStays(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
	t.Setenv("GOMAXPROCS", "3")
	runtime.GOMAXPROCS(3)
	newProcessors().listening(false)
	if n := runtime.GOMAXPROCS(0); n != 3 {
		t.Errorf("%d processors, want the 3 that the user chose", n)
	}
}

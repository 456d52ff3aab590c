package proc

import (
	"testing"
	"time"
)

func TestParentIsFoundBehindAnyProgramName(t *testing.T) {
	for stat, want := range map[string]int{
		"12 (sh) S 7 12 12 0":              7,
		"12 (a b) c) R 8 0":                8,
		"12 () S 1) ) S 9 1 (x) no number": 0,
	} {
		got, err := parentOf(stat)
		if want == 0 {
			if err == nil {
				t.Errorf("%q: parent %d, want an error", stat, got)
			}
			continue
		}
		if err != nil || got != want {
			t.Errorf("%q: parent %d, %v, want %d", stat, got, err, want)
		}
	}
	if _, err := parentOf("12 (sh"); err == nil {
		t.Error("a line that breaks off has a parent")
	}
}

func TestSwitchesAreTakenByTheirWholeName(t *testing.T) {
	status := "Name:\tx\nvoluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t7\n"
	got, err := parseSwitches(status)
	if err != nil || got != (Switches{5, 7}) {
		t.Fatalf("got %+v, %v", got, err)
	}
	if d := (Switches{9, 9}).Sub(got); d != (Switches{4, 2}) {
		t.Fatalf("difference is %+v", d)
	}
	if _, err := parseSwitches("voluntary_ctxt_switches:\t5\n"); err == nil {
		t.Fatal("a status without involuntary switches was taken")
	}
}

func TestRollupIsInKiB(t *testing.T) {
	text := "Rss:   1000 kB\nShared_Clean: 1 kB\nPrivate_Clean: 20 kB\nPrivate_Dirty: 300 kB\nAnonymous: 280 kB\n"
	got, err := parseRollup(text)
	want := Memory{RSS: 1000 << 10, Private: 280 << 10}
	if err != nil || got != want {
		t.Fatalf("got %+v, %v, want %+v", got, err, want)
	}
	for _, bad := range []string{"", "Rss: x kB\n", "Rss:\n", "Rss: 1 kB\nPrivate_Dirty: 1 kB\n"} {
		if _, err := parseRollup(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

func TestPerfsCountIsTakenFromItsLine(t *testing.T) {
	got, err := parsePerf("warning\n1234,,raw_syscalls:sys_enter,1001,100.00,,\n")
	if err != nil || got != 1234 {
		t.Fatalf("got %d, %v", got, err)
	}
	for _, bad := range []string{"", "<not counted>,,raw_syscalls:sys_enter,0,100.00,,\n", "1,,cycles,1\n"} {
		if n, err := parsePerf(bad); err == nil {
			t.Errorf("%q was taken as %d", bad, n)
		}
	}
}

func TestBusyTimeLeavesIdleAndGuestsOut(t *testing.T) {
	got, err := parseBusy("cpu  1 2 3 1000 500 4 5 6 7 8\ncpu0 9 9 9 9\n")
	if err != nil || got != 21*10*time.Millisecond {
		t.Fatalf("got %v, %v", got, err)
	}
	for _, bad := range []string{"", "cpu0 1 2 3 4 5 6 7 8\n", "cpu 1 2 3\n", "cpu 1 2 x 4 5 6 7 8\n"} {
		if _, err := parseBusy(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

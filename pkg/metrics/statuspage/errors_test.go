package statuspage

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
)

func TestRejectionsFailuresAndClientErrorsAreCountedSeparately(t *testing.T) {
	e := NewErrors()
	for _, f := range []gate.Record{
		{Outcome: gate.QueueFull, Status: 503}, {Outcome: gate.QueueWaitExpired, Status: 503},
		{Outcome: gate.Served, Status: 500}, {Outcome: gate.UpstreamReset, Status: 502}, {Outcome: gate.UpstreamNotListening, Status: 503},
		{Outcome: gate.ClientGone, Status: 499}, {Outcome: gate.VersionNotSupported, Status: 505}, {Outcome: gate.BadRequest, Status: 400}, {Outcome: gate.HeadTimeout, Status: 408},
		{Outcome: gate.Served, Status: 404}, {Outcome: gate.Tunnelled, Status: 101},
	} {
		e.Add(&f)
	}
	if got, want := e.totals(), (failureCounts{refused: 2, failed: 3, clientErrors: 4}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if total, list := e.list(); total.sum() != 9 || len(list) != 9 || list[0].Class != "client-error" || list[6].Class != "failed" || list[8].Class != "refused" {
		t.Errorf("%+v, %+v", total, list)
	}
}

func TestFailuresAreListedNewestFirstWithPathButNeitherQueryNorAuthority(t *testing.T) {
	e := NewErrors()
	for i, target := range []string{"/a?token=secret", "http://me:secret@host/b?secret", "https://host", "*", "/c#secret", "/d/?", "http://host?x=/secret"} {
		e.Add(&gate.Record{Arrived: time.Duration(i)*time.Second - 1500*time.Microsecond, Ended: time.Duration(i) * time.Second, Outcome: gate.QueueFull, Status: 503, Method: []byte("GET"), Target: []byte(target)})
	}
	total, list := e.list()
	var paths []string
	for _, x := range list {
		paths = append(paths, x.Path)
	}
	if got, want := fmt.Sprintf("%d %q", total.refused, paths), `7 ["" "/d/" "/c" "" "" "/b" "/a"]`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if want := (failureJSON{At: 0, Took: 1.5, Outcome: "queue-full", Class: "refused", Status: 503, Method: "GET", Path: "/a"}); list[6] != want {
		t.Errorf("%+v, want %+v", list[6], want)
	}
}

func TestAtMostEightFailuresOfAnOutcomeAreKeptPerSecond(t *testing.T) {
	e := NewErrors()
	for range 1000 {
		e.Add(&gate.Record{Ended: time.Second, Outcome: gate.QueueFull, Target: []byte("/storm")})
	}
	e.Add(&gate.Record{Ended: time.Second, Outcome: gate.ClientGone, Target: []byte("/other")})
	e.Add(&gate.Record{Ended: 2 * time.Second, Outcome: gate.QueueFull, Target: []byte("/later")})
	total, list := e.list()
	if total.sum() != 1002 || len(list) != 10 || list[0].Path != "/later" || list[1].Path != "/other" || list[2].Path != "/storm" ||
		list[2].More != 992 || list[0].More+list[1].More+list[3].More != 0 {
		t.Errorf("%+v, %+v", total, list)
	}
}

func TestTheLast64FailuresAreKept(t *testing.T) {
	e := NewErrors()
	for i := range 200 {
		e.Add(&gate.Record{Ended: time.Duration(i) * time.Second, Outcome: gate.QueueFull, Target: fmt.Appendf(nil, "/%d", i)})
	}
	total, list := e.list()
	if total.sum() != 200 || len(list) != 64 || list[0].Path != "/199" || list[63].Path != "/136" {
		t.Errorf("%+v in all, %d listed, from %s to %s", total, len(list), list[0].Path, list[len(list)-1].Path)
	}
}

func TestAFailureIsOnlyCountedWhileAnotherFailureIsBeingAdded(t *testing.T) {
	e := NewErrors()
	e.mu.Lock()
	e.Add(&gate.Record{Outcome: gate.QueueFull, Target: []byte("/a")})
	e.mu.Unlock()
	if total, list := e.list(); total.sum() != 1 || len(list) != 0 {
		t.Errorf("%+v, %+v", total, list)
	}
}

func TestTheListOfFailuresHasTruncatedCopiesOfMethodAndPath(t *testing.T) {
	e := NewErrors()
	method, target := []byte(strings.Repeat("M", 100)), []byte("/"+strings.Repeat("é", 200)+"\xff")
	e.Add(&gate.Record{Outcome: gate.QueueFull, Method: method, Target: target})
	method[0], target[0] = 'X', 'X'
	_, list := e.list()
	if x := list[0]; x.Method != strings.Repeat("M", maxMethodBytes) || len(x.Path) != maxPathBytes || x.Path[0] != '/' || !x.Cut {
		t.Errorf("%+v", x)
	}
	if text, err := json.Marshal(list); err != nil || !json.Valid(text) {
		t.Errorf("%s, %v", text, err)
	}
}

func TestAddingAFailureToTheStatusPageAllocatesNothing(t *testing.T) {
	e := NewErrors()
	f := gate.Record{Outcome: gate.QueueFull, Method: []byte("GET"), Target: []byte("/a?b")}
	e.Add(&f)
	if n := testing.AllocsPerRun(1000, func() { f.Ended += time.Second; e.Add(&f) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	var none *Errors
	none.Add(&f)
}

func BenchmarkAddInAStorm(b *testing.B) {
	e := NewErrors()
	f := gate.Record{Outcome: gate.QueueFull, Method: []byte("GET"), Target: []byte("/a?b")}
	for b.Loop() {
		e.Add(&f)
	}
}

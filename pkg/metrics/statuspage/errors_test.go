package statuspage

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

var outcomeNames = []string{"served", "queue-full", "client-gone"}

func TestFailuresAreListedNewestFirstWithPathButNeitherQueryNorAuthority(t *testing.T) {
	e := NewErrors(outcomeNames)
	for i, target := range []string{"/a?token=secret", "http://me:secret@host/b?secret", "https://host", "*", "/c#secret", "/d/?", "http://host?x=/secret"} {
		e.Add(&Failure{At: time.Duration(i) * time.Second, Took: 1500 * time.Microsecond, Outcome: 1, Status: 503, Method: []byte("GET"), Target: []byte(target)})
	}
	total, list := e.list()
	var paths []string
	for _, x := range list {
		paths = append(paths, x.Path)
	}
	if got, want := fmt.Sprintf("%d %q", total, paths), `7 ["" "/d/" "/c" "" "" "/b" "/a"]`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if want := (failureJSON{At: 0, Took: 1.5, Outcome: "queue-full", Status: 503, Method: "GET", Path: "/a"}); list[6] != want {
		t.Errorf("%+v, want %+v", list[6], want)
	}
}

func TestOfOneOutcomeEightAreKeptPerSecondSoThatOthersAreSeen(t *testing.T) {
	e := NewErrors(outcomeNames)
	for range 1000 {
		e.Add(&Failure{At: time.Second, Outcome: 1, Target: []byte("/storm")})
	}
	e.Add(&Failure{At: time.Second, Outcome: 2, Target: []byte("/other")})
	e.Add(&Failure{At: 2 * time.Second, Outcome: 1, Target: []byte("/later")})
	total, list := e.list()
	if total != 1002 || len(list) != 10 || list[0].Path != "/later" || list[1].Path != "/other" || list[2].Path != "/storm" ||
		list[2].More != 992 || list[0].More+list[1].More+list[3].More != 0 {
		t.Errorf("%d, %+v", total, list)
	}
}

func TestTheLast64FailuresAreKept(t *testing.T) {
	e := NewErrors(outcomeNames)
	for i := range 200 {
		e.Add(&Failure{At: time.Duration(i) * time.Second, Target: fmt.Appendf(nil, "/%d", i)})
	}
	total, list := e.list()
	if total != 200 || len(list) != 64 || list[0].Path != "/199" || list[63].Path != "/136" {
		t.Errorf("%d in all, %d listed, from %s to %s", total, len(list), list[0].Path, list[len(list)-1].Path)
	}
}

func TestAFailureThatWouldHaveToWaitIsCountedOnly(t *testing.T) {
	e := NewErrors(outcomeNames)
	e.mu.Lock()
	e.Add(&Failure{Target: []byte("/a")})
	e.mu.Unlock()
	e.Add(&Failure{Outcome: 250, Target: []byte("/b")}) // nor one that nobody knows
	if total, list := e.list(); total != 2 || len(list) != 0 {
		t.Errorf("%d, %+v", total, list)
	}
}

func TestWhatIsKeptIsACopyCutToItsBounds(t *testing.T) {
	e := NewErrors(outcomeNames)
	method, target := []byte(strings.Repeat("M", 100)), []byte("/"+strings.Repeat("é", 200)+"\xff")
	e.Add(&Failure{Method: method, Target: target})
	method[0], target[0] = 'X', 'X'
	_, list := e.list()
	if x := list[0]; x.Method != strings.Repeat("M", maxMethodBytes) || len(x.Path) != maxPathBytes || x.Path[0] != '/' || !x.Cut {
		t.Errorf("%+v", x)
	}
	if text, err := json.Marshal(list); err != nil || !json.Valid(text) {
		t.Errorf("%s, %v", text, err)
	}
}

func TestAddAllocatesNothingAfterTheFirst(t *testing.T) {
	e := NewErrors(outcomeNames)
	f := Failure{Method: []byte("GET"), Target: []byte("/a?b")}
	e.Add(&f)
	if n := testing.AllocsPerRun(1000, func() { f.At += time.Second; e.Add(&f) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	var none *Errors
	none.Add(&f)
}

func BenchmarkAddInAStorm(b *testing.B) {
	e := NewErrors(outcomeNames)
	f := Failure{Method: []byte("GET"), Target: []byte("/a?b")}
	for b.Loop() {
		e.Add(&f)
	}
}

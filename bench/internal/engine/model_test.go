package engine

import (
	"math/rand/v2"
	"reflect"
	"testing"
	"time"
)

// small returns an engine with few blocks. A step takes 10 ms, plus 1 ms per
// token of a prompt and 2 ms per decoding sequence.
func small(t testing.TB, blocks int) *Model {
	t.Helper()
	m, err := NewModel(Config{BlockSize: 4, Blocks: blocks, MaxModelLen: 4 * blocks, MaxSequences: 3, MaxBatchedTokens: 16,
		Base: 10 * time.Millisecond, PerPrefillToken: time.Millisecond, PerSequence: 2 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func add(t testing.TB, m *Model, prompt, output int) *Request {
	t.Helper()
	r := &Request{Prompt: prompt, Output: output}
	if err := m.Add(r, 0); err != nil {
		t.Fatal(err)
	}
	return r
}

func begin(t testing.TB, m *Model, now time.Duration) time.Duration {
	t.Helper()
	takes, busy := m.Begin(now)
	if !busy {
		t.Fatal("nothing to do")
	}
	return takes
}

func TestStepTimeGrowsWithPromptTokensAndSequences(t *testing.T) {
	m := small(t, 100)
	a := add(t, m, 5, 3)
	if d := begin(t, m, 0); d != 15*time.Millisecond {
		t.Errorf("the step of a prompt of 5 tokens takes %v, want 15ms", d)
	}
	m.End(15 * time.Millisecond)
	if a.First != 15*time.Millisecond {
		t.Errorf("first token at %v, want 15ms", a.First)
	}
	b := add(t, m, 4, 1)
	if d := begin(t, m, a.First); d != 16*time.Millisecond {
		t.Errorf("a step with one decoding sequence and a prompt of 4 tokens takes %v, want 16ms", d)
	}
	m.End(31 * time.Millisecond)
	if b.EndTime != 31*time.Millisecond || a.EndTime != 0 {
		t.Errorf("ended at %v and %v, want 31ms and not yet", b.EndTime, a.EndTime)
	}
	simulate(t, m, b.EndTime)
	if s := m.Stats(); s.Running != 0 || s.KV != 0 || s.GeneratedTokens != 4 || s.PromptTokens != 9 || s.Finished != 2 {
		t.Errorf("at the end: %+v", s)
	}
}

func TestAPromptLongerThanTheTokenBudgetIsComputedInChunks(t *testing.T) {
	m := small(t, 100)
	r := add(t, m, 40, 1)
	if d := begin(t, m, 0); d != 26*time.Millisecond {
		t.Errorf("the first chunk takes %v, want 26ms", d)
	}
	m.End(26 * time.Millisecond)
	if end := simulate(t, m, 26*time.Millisecond); end != 70*time.Millisecond || r.First != end || len(r.Steps) != 3 {
		t.Errorf("first token at %v of %v in %d steps, want 70ms in 3", r.First, end, len(r.Steps))
	}
}

func TestEngineMetricsCountARequestOnlyAfterItsFirstStep(t *testing.T) {
	m := small(t, 100)
	add(t, m, 4, 5)
	if s := m.Stats(); s.Running+s.Waiting != 0 {
		t.Errorf("before the step: %+v", s)
	}
	begin(t, m, 0)
	add(t, m, 4, 5)
	if s := m.Stats(); s.Running+s.Waiting != 0 {
		t.Errorf("during the step: %+v", s)
	}
	m.End(1)
	if s := m.Stats(); s.Running != 1 || s.Waiting != 0 || s.KV != 0.01 {
		t.Errorf("after the step: %+v, want one running", s)
	}
	if s := m.Now(); s.Waiting != 1 || m.InFlight() != 2 {
		t.Errorf("Now: %+v, want one more waiting", s)
	}
}

func TestTheYoungestRequestIsPreemptedAndComputedAgain(t *testing.T) {
	m := small(t, 4)
	old, young := add(t, m, 7, 5), add(t, m, 7, 5) // each sequence needs 3 blocks when it ends
	begin(t, m, 0)
	m.End(1)
	// Each sequence now has 8 tokens, which fill 2 blocks. So no block is free, and the
	// next step must preempt a request.
	begin(t, m, 1)
	m.End(2)
	if d := begin(t, m, 2); d != 12*time.Millisecond {
		t.Errorf("the step with the preemption takes %v, want 12ms", d)
	}
	if young.Preempted != 1 || old.Preempted != 0 || m.Now().Waiting != 1 {
		t.Fatalf("preempted %d and %d times, want the younger one once: %+v", old.Preempted, young.Preempted, m.Now())
	}
	m.End(3)
	now := time.Duration(3)
	for old.EndTime == 0 {
		begin(t, m, now)
		now++
		m.End(now)
	}
	if d := begin(t, m, now); d != 19*time.Millisecond {
		t.Errorf("computing 7 tokens of the prompt and 2 generated ones again takes %v, want 19ms", d)
	}
	m.End(now + 1)
	simulate(t, m, now+1)
	if s := m.Stats(); s.Preemptions != 1 || s.Finished != 2 || s.GeneratedTokens != 10 {
		t.Errorf("at the end: %+v", s)
	}
}

func TestAnAbortFreesItsBlocksBeforeTheNextStep(t *testing.T) {
	m := small(t, 4)
	a := add(t, m, 12, 4)
	begin(t, m, 0)
	b := add(t, m, 12, 4)
	m.Abort(a, 1)
	if m.InFlight() != 1 {
		t.Errorf("%d in flight, want 1", m.InFlight())
	}
	m.End(2)
	if s := m.Stats(); s.KV != 0 || s.Running != 0 || s.Aborted != 1 {
		t.Errorf("after the step: %+v, want nothing", s)
	}
	begin(t, m, 2)
	if len(a.Steps) != 1 || len(b.Steps) != 1 {
		t.Errorf("%d and %d steps, want the next one to be of the other request", len(a.Steps), len(b.Steps))
	}
	m.End(3)
	m.Abort(b, 4) // between two steps
	m.Abort(b, 5)
	if s := m.Now(); s.KV != 0 || s.Aborted != 2 || m.InFlight() != 0 {
		t.Errorf("after the second abort: %+v", s)
	}
	c := add(t, m, 1, 1)
	begin(t, m, 6)
	m.Abort(c, 7)
	m.End(8) // without the abort, b would have ended with this step
	if s := m.Stats(); s.Aborted != 3 || s.Finished != 0 || m.InFlight() != 0 {
		t.Errorf("after an abort in the last step: %+v, %d in flight", s, m.InFlight())
	}
}

func TestTheEngineModelRejectsARequestThatCannotFit(t *testing.T) {
	m := small(t, 4)
	for _, r := range []*Request{{Prompt: 0, Output: 1}, {Prompt: 1, Output: 0}, {Prompt: 10, Output: 7}} {
		if m.Add(r, 0) == nil {
			t.Errorf("%d + %d tokens were accepted", r.Prompt, r.Output)
		}
	}
	for _, c := range []Config{{}, {BlockSize: 1, Blocks: 1, MaxModelLen: 2, MaxSequences: 1, MaxBatchedTokens: 1, Base: 1}} {
		if _, err := NewModel(c); err == nil {
			t.Errorf("%+v was accepted", c)
		}
	}
}

// schedule runs random requests and aborts, and returns the requests and the metrics.
func schedule(t testing.TB, seed uint64, oracle bool) (all []*Request, s Stats) {
	m := small(t, 30)
	if oracle {
		m.cfg.MaxBatchedTokens = 1 << 10
		m.cfg.MaxSequences = 10
	}
	draw := rand.New(rand.NewPCG(seed, 1))
	var waiting []*Request
	now := time.Duration(1)
	for round := range 3000 {
		if round < 2000 && draw.IntN(3) == 0 {
			waiting = append(waiting, &Request{Prompt: 1 + draw.IntN(60), Output: 1 + draw.IntN(50)})
		}
		for len(waiting) > 0 && (!oracle || m.Fits(waiting[0], TrueLengths)) {
			if err := m.Add(waiting[0], now); err != nil {
				t.Fatal(err)
			}
			all, waiting = append(all, waiting[0]), waiting[1:]
		}
		takes, busy := m.Begin(now)
		if len(all) > 0 && draw.IntN(20) == 0 {
			m.Abort(all[draw.IntN(len(all))], now)
		}
		now += takes
		if busy {
			m.End(now)
		}
		check(t, m)
	}
	now = simulate(t, m, now)
	for len(waiting) > 0 {
		_ = m.Add(waiting[0], now)
		all, waiting = append(all, waiting[0]), waiting[1:]
		now = simulate(t, m, now)
	}
	return all, m.Stats()
}

// check compares the block counts with the blocks of the running requests.
func check(t testing.TB, m *Model) {
	t.Helper()
	numUsed := 0
	for _, r := range m.running {
		numUsed += r.blocks
		if r.blocks < m.cfg.blocks(r.computed) {
			t.Fatalf("%d computed tokens in %d blocks", r.computed, r.blocks)
		}
	}
	for _, r := range m.waiting {
		if r.blocks != 0 {
			t.Fatal("a waiting request holds blocks")
		}
	}
	if m.free < 0 || numUsed+m.free != m.cfg.Blocks {
		t.Fatalf("%d blocks held, %d free, of %d", numUsed, m.free, m.cfg.Blocks)
	}
}

func TestTheEngineModelEndsEveryRequestAndIsDeterministic(t *testing.T) {
	preemptions := int64(0)
	for seed := range uint64(20) {
		all, s := schedule(t, seed, false)
		second, _ := schedule(t, seed, false)
		for i, r := range all {
			if r.EndTime == 0 || r.state < finished {
				t.Fatalf("request %d of %d has not ended", i, len(all))
			}
			if !reflect.DeepEqual(r.Steps, second[i].Steps) {
				t.Fatalf("seed %d, request %d: steps differ", seed, i)
			}
		}
		if int(s.Finished+s.Aborted) != len(all) || s.KV != 0 {
			t.Fatalf("%d requests: %+v", len(all), s)
		}
		preemptions += s.Preemptions
	}
	if preemptions == 0 {
		t.Error("no schedule had a preemption")
	}
}

func TestRequestsThatFitAreNeverPreempted(t *testing.T) {
	for seed := range uint64(20) {
		if all, s := schedule(t, seed, true); s.Preemptions != 0 || len(all) < 100 {
			t.Errorf("seed %d: %d preemptions of %d requests", seed, s.Preemptions, len(all))
		}
	}
}

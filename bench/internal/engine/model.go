package engine

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Config describes an engine; see the package documentation.
type Config struct {
	BlockSize        int // tokens per block of the KV cache
	Blocks           int // blocks of the KV cache
	MaxModelLen      int // maximum number of tokens of a prompt and its output together
	MaxSequences     int // maximum number of running requests (max_num_seqs)
	MaxBatchedTokens int // maximum number of tokens in a step (max_num_batched_tokens)
	Base             time.Duration
	PerPrefillToken  time.Duration
	PerSequence      time.Duration
}

// Default resembles vLLM with a model of 8 billion parameters on a GPU with 40 GB.
func Default() Config {
	return Config{
		BlockSize: 16, Blocks: 5691, MaxModelLen: 8192, MaxSequences: 256, MaxBatchedTokens: 8192,
		Base: 6 * time.Millisecond, PerPrefillToken: 35 * time.Microsecond, PerSequence: 60 * time.Microsecond,
	}
}

// Validate returns an error that lists all invalid values.
func (c Config) Validate() error {
	var problems []error
	for _, v := range []struct {
		name  string
		value int
	}{{"block size", c.BlockSize}, {"blocks", c.Blocks}, {"max model len", c.MaxModelLen}, {"max sequences", c.MaxSequences}, {"max batched tokens", c.MaxBatchedTokens}} {
		if v.value < 1 {
			problems = append(problems, fmt.Errorf("%s is %d, must be at least 1", v.name, v.value))
		}
	}
	if c.Base <= 0 || c.PerPrefillToken < 0 || c.PerSequence < 0 {
		problems = append(problems, fmt.Errorf("costs of a step are %v, %v and %v, the first must be positive and none negative", c.Base, c.PerPrefillToken, c.PerSequence))
	}
	if c.Blocks*c.BlockSize < c.MaxModelLen {
		problems = append(problems, fmt.Errorf("%d blocks of %d tokens do not hold one sequence of max model len, %d", c.Blocks, c.BlockSize, c.MaxModelLen))
	}
	return errors.Join(problems...)
}

// MaxConcurrency returns how many requests of n tokens fit into the KV cache.
func (c Config) MaxConcurrency(n int) float64 {
	return float64(c.Blocks*c.BlockSize) / float64(n)
}

func (c Config) blocks(tokens int) int { return (tokens + c.BlockSize - 1) / c.BlockSize }

// StepTime returns the duration of a step.
func (c Config) StepTime(prefillTokens, sequences int) time.Duration {
	return c.Base + time.Duration(prefillTokens)*c.PerPrefillToken + time.Duration(sequences)*c.PerSequence
}

type state uint8

const (
	created state = iota
	arrived       // the next step moves it to the queue
	queued
	running
	finished
	aborted
)

// A Request belongs to one Model after Add. Its times have the same origin as the times
// passed to the Model.
type Request struct {
	Prompt, Output int // numbers of tokens

	// Token is called at the end of each step that generates a token for the request.
	Token func(last bool)

	Arrived time.Duration
	// First is the time of the first token. EndTime is the time of the last token or of
	// the abort. 0 = not yet.
	First, EndTime time.Duration
	// Steps are the start times of the steps that computed tokens of the request.
	Steps     []time.Duration
	Preempted int

	state     state
	computed  int // tokens of the request in the KV cache
	generated int
	blocks    int
	chunk     int  // tokens of the request in the current step; 0 = not in the step
	leaving   bool // aborted during a step; the request is removed when the step ends
}

func (r *Request) tokens() int { return r.Prompt + r.generated }

// Model is the state of an engine. It is not safe for concurrent use.
type Model struct {
	cfg     Config
	inbox   []*Request
	waiting []*Request
	running []*Request
	leaving []*Request
	free    int // number of free blocks
	step    []*Request
	began   time.Duration
	inStep  bool

	stats    Stats // live counters; record copies them and sets the gauges
	recorded Stats
}

// Stats are the values of the metrics page.
type Stats struct {
	Running, Waiting int
	KV               float64 // used share of the KV cache, 0 to 1
	Preemptions      int64
	PromptTokens     int64 // prompt tokens of the requests that have a first token
	GeneratedTokens  int64
	Steps            int64
	Finished         int64
	Aborted          int64
}

// NewModel returns an idle engine.
func NewModel(c Config) (*Model, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("engine: %w", err)
	}
	return &Model{cfg: c, free: c.Blocks}, nil
}

// ErrTooLong reports a request with more than MaxModelLen tokens.
var ErrTooLong = errors.New("prompt and output are longer than the model allows")

// Add adds a request.
func (m *Model) Add(r *Request, now time.Duration) error {
	if err := m.check(r); err != nil {
		return err
	}
	r.state, r.Arrived = arrived, now
	m.inbox = append(m.inbox, r)
	return nil
}

func (m *Model) check(r *Request) error {
	if r.Prompt < 1 || r.Output < 1 || r.Prompt+r.Output > m.cfg.MaxModelLen {
		return fmt.Errorf("%d tokens of prompt, %d of output, at most %d: %w", r.Prompt, r.Output, m.cfg.MaxModelLen, ErrTooLong)
	}
	return nil
}

// Abort ends a request. During a step, the request keeps its blocks until the step ends.
// Abort has no effect on a request that has ended or was never added.
func (m *Model) Abort(r *Request, now time.Duration) {
	if r.leaving || r.state == created || r.state >= finished {
		return
	}
	r.leaving, r.EndTime = true, now
	m.leaving = append(m.leaving, r)
	if !m.inStep {
		m.removeAborted()
		m.record()
	}
}

func (m *Model) removeAborted() {
	for _, r := range m.leaving {
		// The request was aborted during a step, but the same step generated its last
		// token. So the method End has already removed the request and counted the abort.
		if r.state == finished {
			continue
		}
		m.drop(&m.inbox, r)
		m.drop(&m.waiting, r)
		m.drop(&m.running, r)
		m.release(r)
		r.state = aborted
		m.stats.Aborted++
	}
	m.leaving = m.leaving[:0]
}

func (m *Model) drop(list *[]*Request, r *Request) {
	if i := slices.Index(*list, r); i >= 0 {
		*list = slices.Delete(*list, i, i+1)
	}
}

func (m *Model) release(r *Request) {
	m.free += r.blocks
	r.blocks, r.computed = 0, 0
}

// grow allocates blocks for n tokens of r. It reports whether enough blocks were free.
func (m *Model) grow(r *Request, n int) bool {
	need := m.cfg.blocks(n) - r.blocks
	if need > m.free {
		return false
	}
	m.free -= max(need, 0)
	r.blocks += max(need, 0)
	return true
}

// Begin schedules the next step and returns its duration, or false if there is nothing to
// do.
func (m *Model) Begin(now time.Duration) (time.Duration, bool) {
	if m.inStep {
		panic("BUG: Begin within a step")
	}
	for _, r := range m.inbox {
		r.state = queued
	}
	m.waiting, m.inbox = append(m.waiting, m.inbox...), m.inbox[:0]
	m.step = m.step[:0]
	budget, prefill, decoding, preempted := m.cfg.MaxBatchedTokens, 0, 0, false
	take := func(r *Request, n int) {
		r.chunk = n
		budget -= n
		if r.generated > 0 && n == 1 && r.computed == r.tokens()-1 {
			decoding++
		} else {
			prefill += n
		}
		r.Steps = append(r.Steps, now)
		m.step = append(m.step, r)
	}
	for i := 0; i < len(m.running) && budget > 0; i++ {
		r := m.running[i]
		n := min(r.tokens()-r.computed, budget)
		for !m.grow(r, r.computed+n) {
			m.preempt()
			preempted = true
			if len(m.running) <= i {
				break
			}
		}
		if i < len(m.running) {
			take(r, n)
		}
	}
	for !preempted && len(m.waiting) > 0 && budget > 0 && len(m.running) < m.cfg.MaxSequences {
		r := m.waiting[0]
		n := min(r.tokens(), budget)
		if !m.grow(r, n) {
			break
		}
		m.waiting = m.waiting[1:]
		m.running = append(m.running, r)
		r.state = running
		take(r, n)
	}
	if len(m.step) == 0 {
		return 0, false
	}
	m.inStep, m.began = true, now
	return m.cfg.StepTime(prefill, decoding), true
}

// preempt moves the youngest running request to the head of the queue.
func (m *Model) preempt() {
	last := len(m.running) - 1
	r := m.running[last]
	m.running = m.running[:last]
	m.release(r)
	r.state = queued
	r.Preempted++
	m.stats.Preemptions++
	m.waiting = slices.Insert(m.waiting, 0, r)
}

// End ends the step that Begin began.
func (m *Model) End(now time.Duration) {
	if !m.inStep {
		panic("BUG: End without Begin")
	}
	m.inStep = false
	m.stats.Steps++
	for _, r := range m.step {
		prompt := r.generated == 0
		r.computed += r.chunk
		r.chunk = 0
		if r.computed < r.tokens() {
			continue
		}
		r.generated++
		m.stats.GeneratedTokens++
		if prompt {
			r.First = now
			m.stats.PromptTokens += int64(r.Prompt)
		}
		last := r.generated == r.Output
		if last {
			m.drop(&m.running, r)
			m.release(r)
			r.state = finished
			if !r.leaving {
				r.EndTime = now
				m.stats.Finished++
			} else {
				m.stats.Aborted++
			}
		}
		if r.Token != nil && !r.leaving {
			r.Token(last)
		}
	}
	m.removeAborted()
	m.record()
}

// record stores the current values for the metrics page.
func (m *Model) record() {
	m.recorded = m.Now()
	m.recorded.Waiting = len(m.waiting)
}

// Stats returns the values at the end of the latest step.
func (m *Model) Stats() Stats { return m.recorded }

// Now returns the current values, including requests that no step has processed.
func (m *Model) Now() Stats {
	s := m.stats
	s.Running, s.Waiting = len(m.running), len(m.waiting)+len(m.inbox)
	s.KV = float64(m.cfg.Blocks-m.free) / float64(m.cfg.Blocks)
	return s
}

// InFlight returns the number of requests that have neither ended nor been aborted.
func (m *Model) InFlight() int {
	return len(m.inbox) + len(m.waiting) + len(m.running) - len(m.leaving)
}

// Lengths returns the length of a request's output in tokens, which is more than the
// request has generated so far.
type Lengths func(*Request) int

// TrueLengths returns the length that the request will reach. No real scheduler knows
// it.
func TrueLengths(r *Request) int { return r.Output }

// Fits reports whether r can run at once together with all other requests of the engine,
// and none of them will be preempted. It assumes that no request is admitted after r, and
// that each prompt is computed in one step. The function output forecasts the output
// length of each request.
func (m *Model) Fits(r *Request, output Lengths) bool {
	all := slices.Concat(m.running, m.waiting, m.inbox, []*Request{r})
	if len(all) > m.cfg.MaxSequences {
		return false
	}
	remaining := make(map[*Request]int, len(all))
	for _, q := range all {
		remaining[q] = output(q) - q.generated
	}
	slices.SortFunc(all, func(a, b *Request) int { return remaining[a] - remaining[b] })
	// Cache use is highest just before a request ends, so check the time at which each
	// request ends.
	for i, request := range all {
		ahead := remaining[request]
		use := 0
		for _, other := range all[i:] {
			use += m.cfg.blocks(other.tokens() + ahead)
		}
		if use > m.cfg.Blocks {
			return false
		}
	}
	return true
}

// FirstToken estimates how long the first token of r takes if r is added now. The caller
// is between two steps. FirstToken assumes that the next step computes the prompt of r,
// and the rest of the other prompts, completely.
func (m *Model) FirstToken(r *Request) time.Duration {
	prefill, decoding := r.Prompt, 0
	for _, other := range slices.Concat(m.running, m.waiting, m.inbox) {
		if n := other.tokens() - other.computed; n > 1 || other.generated == 0 {
			prefill += n
		} else {
			decoding++
		}
	}
	return m.cfg.StepTime(prefill, decoding)
}

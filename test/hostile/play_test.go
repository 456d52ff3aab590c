package hostile

import (
	"iter"
	"sync"

	"go.uber.org/atomic"
)

// playAll plays runs one by one, and judges them when all connections to the container
// have ended.
func playAll(t *target, runs iter.Seq[*run]) []*outcome {
	var all []*outcome
	for r := range runs {
		o := r.do(t)
		if !t.alive() {
			o.add(died, "the process ended:\n%.4000s", t.gate.Stderr.String())
			all = append(all, o)
			break
		}
		all = append(all, o)
	}
	if err := t.stop(); err != nil && len(all) > 0 {
		all[len(all)-1].add(died, "%v", err)
	}
	timeout := hangTime
	if t.gate == nil {
		timeout = 0
	}
	t.container.finish(timeout)
	judge(t.container, all)
	return all
}

// playParallel distributes runs over workers, each with its own target. Workers take runs
// when they are free, because some runs take as long as a timeout.
func playParallel(workers int, newTarget func(worker int) (*target, error), cases []*hostileCase) ([]*outcome, error) {
	var wg sync.WaitGroup
	results := make([][]*outcome, workers)
	errs := make([]error, workers)
	var numStarted atomic.Int64
	for w := range workers {
		wg.Go(func() {
			t, err := newTarget(w)
			if err != nil {
				errs[w] = err
				return
			}
			results[w] = playAll(t, func(yield func(*run) bool) {
				nth, index := int64(0), numStarted.Inc()
				for _, c := range cases {
					variants := variantsOf(c, t.container.port())
					if t.gate == nil {
						variants = variants[:1]
					}
					for _, v := range variants {
						if nth++; nth < index {
							continue
						}
						r, err := newRun(c, v, int(nth), t.container.port())
						if err != nil {
							errs[w] = err
							return
						}
						if !yield(r) {
							return
						}
						index = numStarted.Inc()
					}
				}
			})
		})
	}
	wg.Wait()
	var all []*outcome
	for w := range workers {
		if errs[w] != nil {
			return nil, errs[w]
		}
		all = append(all, results[w]...)
	}
	return all, nil
}

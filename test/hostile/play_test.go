package hostile

import (
	"sync"
)

// playAll plays runs one after another and judges them once the container has
// seen the end of every connection.
func playAll(t *target, runs []*run) []*outcome {
	var all []*outcome
	for _, r := range runs {
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

// playParallel spreads runs over workers, each with a target of its own.
func playParallel(workers int, newTarget func(worker int) (*target, error), cases []*hostileCase) ([]*outcome, error) {
	var wg sync.WaitGroup
	results := make([][]*outcome, workers)
	errs := make([]error, workers)
	for w := range workers {
		wg.Go(func() {
			t, err := newTarget(w)
			if err != nil {
				errs[w] = err
				return
			}
			var runs []*run
			nth := 0
			for _, c := range cases {
				variants := variantsOf(c, t.container.port())
				if t.gate == nil {
					variants = variants[:1]
				}
				for _, v := range variants {
					nth++
					if nth%workers != w {
						continue
					}
					r, err := newRun(c, v, nth, t.container.port())
					if err != nil {
						errs[w] = err
						t.stop()
						return
					}
					runs = append(runs, r)
				}
			}
			results[w] = playAll(t, runs)
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

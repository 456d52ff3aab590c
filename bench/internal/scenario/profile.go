package scenario

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// A profiler collects pprof profiles of the targets that have some. A nil
// profiler does nothing.
type profiler struct {
	dir string
}

// start begins a CPU profile for as long as the load will last; the function
// that it returns waits for its end and fetches what was allocated.
func (p *profiler) start(r *Run, s *stand, d time.Duration) (stop func()) {
	port := s.instance.ProfilePort()
	if p == nil || port == 0 || r.round != 1 {
		return func() {}
	}
	fetch := func(kind, query string) error {
		name := filepath.Join(p.dir, fmt.Sprintf("%s-%s-%s.pprof", r.scenario.Name, r.target.Name, kind))
		return download(fmt.Sprintf("http://127.0.0.1:%d/debug/pprof/%s%s", port, map[string]string{"cpu": "profile", "allocs": "allocs"}[kind], query), name)
	}
	cpu := make(chan error, 1)
	seconds := max(1, int(d/time.Second))
	go func() { cpu <- fetch("cpu", fmt.Sprintf("?seconds=%d", seconds)) }()
	return func() {
		if err := errors.Join(<-cpu, fetch("allocs", "")); err != nil {
			r.note("profiles are missing: %v", err)
		}
	}
}

var profileClient = &http.Client{Timeout: 5 * time.Minute}

func download(url, name string) error {
	response, err := profileClient.Get(url)
	if err != nil {
		return fmt.Errorf("fetching a profile: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("fetching a profile: %s: %s", url, response.Status)
	}
	file, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("fetching a profile: %w", err)
	}
	if _, err := io.Copy(file, response.Body); err != nil {
		file.Close()
		return fmt.Errorf("fetching a profile: %w", err)
	}
	return file.Close()
}

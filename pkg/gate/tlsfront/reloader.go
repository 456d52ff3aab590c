package tlsfront

import (
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	"go.uber.org/atomic"

	"github.com/queuegate/queuegate/internal/filewatch"
)

const (
	// settleTime is the time after which inconsistent files are reported. Files that are
	// written one after the other are inconsistent for a moment.
	settleTime = time.Second
	// firstRetry and lastRetry bound the time between two attempts to load files that
	// have an error. A file event causes an immediate attempt.
	firstRetry = 50 * time.Millisecond
	lastRetry  = time.Minute
	// pollInterval is the time between two checks if inotify is not available.
	pollInterval = 30 * time.Second
)

// reloader holds the certificate in use and reloads it when its files change.
type reloader struct {
	cfg     *Config
	watcher *filewatch.Watcher // nil: inotify is not available, and the files are checked every pollInterval
	current atomic.Pointer[tls.Config]
	expires atomic.Time // end of validity of the certificate in use

	material *material // used only on the goroutine of follow
	// failingSince is the time of the first of several attempts to load that failed with
	// the same error. It is zero if no retry is needed.
	failingSince time.Time
	failure      string // error of the last attempt; empty = none
	reported     bool
	retry        time.Duration

	requests chan struct{} // capacity 1, so that several requests are combined
	stop     chan struct{}

	reloads, failures atomic.Uint64
}

func newReloader(c *Config) *reloader {
	r := &reloader{cfg: c, requests: make(chan struct{}, 1), stop: make(chan struct{})}
	r.expires.Store(time.Time{})
	return r
}

// start watches the files and loads them for the first time. It returns an error only if
// the files cannot be watched. An error in the files is reported to Config.Changed.
func (r *reloader) start() error {
	w, err := filewatch.New()
	if err == nil {
		r.watcher = w
		err = w.Watch(r.cfg.paths())
	}
	r.check(false)
	return err
}

// follow reloads the files on change until stop is closed. It calls loaded after each
// new certificate and each requested reload.
func (r *reloader) follow(loaded func()) {
	defer r.unwatch()
	var events <-chan struct{}
	if r.watcher != nil {
		events = r.watcher.Changed()
	}
	for {
		var timer <-chan time.Time
		if wait := r.nextCheck(); wait > 0 {
			timer = time.After(wait)
		}
		requested := false
		select {
		case <-r.stop:
			return
		case <-r.requests:
			requested = true
		case <-events:
			r.retry = 0
		case <-timer:
		}
		if r.watcher != nil {
			_ = r.watcher.Watch(r.cfg.paths())
		}
		if r.check(requested) || requested {
			loaded()
		}
	}
}

// nextCheck returns the maximum time to wait for an event; 0 = no bound.
func (r *reloader) nextCheck() time.Duration {
	switch {
	case !r.failingSince.IsZero():
		r.retry = min(max(2*r.retry, firstRetry), lastRetry)
		return r.retry
	case r.watcher == nil:
		return pollInterval
	}
	return 0
}

// check loads the files if they differ from those in use. It returns true if the
// certificate was replaced. The result of a requested check is always reported.
func (r *reloader) check(requested bool) bool {
	files, err := r.cfg.readFiles()
	if err == nil && r.material != nil && r.material.files.equal(files) {
		r.clearFailure()
		if requested {
			r.report(nil, false)
		}
		return false
	}
	var m *material
	if err == nil {
		m, err = r.cfg.parse(files)
	}
	if err == nil {
		err = r.checkExpiry(m)
	}
	if err != nil {
		r.noteFailure(err, requested)
		return false
	}
	r.clearFailure()
	if r.material != nil {
		r.reloads.Inc()
	}
	r.material = m
	r.expires.Store(m.notAfter())
	r.current.Store(r.cfg.serverConfig(m))
	r.report(nil, true)
	return true
}

// checkExpiry returns an error if an expired certificate would replace a valid one.
func (r *reloader) checkExpiry(m *material) error {
	now := time.Now()
	if r.material != nil && m.notAfter().Before(now) && r.material.notAfter().After(now) {
		return fmt.Errorf("loading %s of %s: expired at %s", m.files.source, r.cfg.Dir, m.notAfter().UTC().Format(time.RFC3339))
	}
	return nil
}

// noteFailure records that the files cannot be used. It reports each failure once, after
// settleTime.
func (r *reloader) noteFailure(err error, requested bool) {
	first := r.material == nil && r.failure == ""
	if text := err.Error(); text != r.failure {
		r.failingSince, r.failure, r.reported, r.retry = time.Now(), text, false, 0
	}
	none := r.material == nil && errors.Is(err, ErrNone)
	settled := first || none || time.Since(r.failingSince) >= settleTime
	if none {
		r.failingSince = time.Time{} // missing files are not a failure; an event follows when they appear
	}
	if !requested && (r.reported || !settled) {
		return
	}
	if !none && !r.reported {
		r.failures.Inc()
	}
	r.reported = true
	r.report(err, false)
}

func (r *reloader) clearFailure() {
	r.failingSince, r.failure, r.reported, r.retry = time.Time{}, "", false, 0
}

func (r *reloader) report(err error, isNew bool) {
	if r.cfg.Changed == nil {
		return
	}
	c := Change{Err: err, New: isNew}
	if r.material != nil {
		c.Serving, c.NotAfter = true, r.material.notAfter()
	}
	r.cfg.Changed(c)
}

func (r *reloader) unwatch() {
	if r.watcher != nil {
		r.watcher.Close()
	}
}

// reload requests a check.
func (r *reloader) reload() {
	select {
	case r.requests <- struct{}{}:
	default:
	}
}

// configForClient returns the current configuration for a new client. It is the
// GetConfigForClient function of another tls.Config, which is never replaced and holds
// the session ticket keys. So clients can resume their sessions after a change of the
// certificate.
func (r *reloader) configForClient(*tls.ClientHelloInfo) (*tls.Config, error) {
	return r.current.Load(), nil
}

package tlsfront

import (
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	"go.uber.org/atomic"
)

const (
	// settling is how long files may contradict each other before that is told:
	// they are written one after the other.
	settling = time.Second
	// firstRetry and lastRetry bound the waits between two looks at files that
	// cannot be loaded. An event makes for a look at once.
	firstRetry = 50 * time.Millisecond
	lastRetry  = time.Minute
	// pollInterval is that of a keeper that cannot watch.
	pollInterval = 30 * time.Second
)

// keeper holds the certificate in use and follows the files.
type keeper struct {
	cfg     *Config
	watcher *watcher // nil: the files are looked at every pollInterval
	current atomic.Pointer[tls.Config]
	expires atomic.Time // of the certificate in use

	material *material // belongs to the goroutine that follows
	broken   time.Time // since when loading fails in this way; zero = it does not
	failure  string    // this way; empty = loading has not failed
	told     bool
	retry    time.Duration

	ask  chan struct{}
	stop chan struct{}

	reloads, failures atomic.Uint64
}

func newKeeper(c *Config) *keeper {
	k := &keeper{cfg: c, ask: make(chan struct{}, 1), stop: make(chan struct{})}
	k.expires.Store(time.Time{})
	return k
}

// start looks for the first time, and returns what a watch would need to work.
func (k *keeper) start() error {
	w, err := newWatcher()
	if err == nil {
		k.watcher = w
		err = w.watch(k.cfg.paths())
	}
	k.look(false)
	return err
}

// follow loads what changes until stop is closed. loaded is called after each
// certificate that comes into use, and whenever somebody asks.
func (k *keeper) follow(loaded func()) {
	defer k.unwatch()
	var events chan struct{}
	if k.watcher != nil {
		events = k.watcher.changed
	}
	for {
		var again <-chan time.Time
		if wait := k.nextLook(); wait > 0 {
			again = time.After(wait)
		}
		asked := false
		select {
		case <-k.stop:
			return
		case <-k.ask:
			asked = true
		case <-events:
			k.retry = 0
		case <-again:
		}
		if k.watcher != nil {
			_ = k.watcher.watch(k.cfg.paths())
		}
		if k.look(asked) || asked {
			loaded()
		}
	}
}

// nextLook is how long to wait for an event; 0 = for ever.
func (k *keeper) nextLook() time.Duration {
	switch {
	case !k.broken.IsZero():
		k.retry = min(max(2*k.retry, firstRetry), lastRetry)
		return k.retry
	case k.watcher == nil:
		return pollInterval
	}
	return 0
}

// look loads the files if they are not those in use, and reports whether they
// are in use now. asked: somebody wants to hear how it went, whatever it is.
func (k *keeper) look(asked bool) bool {
	files, err := k.cfg.readFiles()
	if err == nil && k.material.same(files) {
		k.mended()
		if asked {
			k.tell(nil, false)
		}
		return false
	}
	var m *material
	if err == nil {
		m, err = k.cfg.parse(files)
	}
	if err == nil {
		err = k.notWorse(m)
	}
	if err != nil {
		k.failed(err, asked)
		return false
	}
	k.mended()
	if k.material != nil {
		k.reloads.Inc()
	}
	k.material = m
	k.expires.Store(m.notAfter())
	k.current.Store(k.cfg.serverConfig(m))
	k.tell(nil, true)
	return true
}

// notWorse refuses a certificate that has expired in the place of one that has
// not.
func (k *keeper) notWorse(m *material) error {
	now := time.Now()
	if k.material != nil && m.notAfter().Before(now) && k.material.notAfter().After(now) {
		return fmt.Errorf("loading %s of %s: expired at %s", certificateFile, k.cfg.Dir, m.notAfter().UTC().Format(time.RFC3339))
	}
	return nil
}

// failed notes that the files cannot be used and tells it, each failure once,
// when they have had time to settle.
func (k *keeper) failed(err error, asked bool) {
	first := k.material == nil && k.failure == ""
	if text := err.Error(); text != k.failure {
		k.broken, k.failure, k.told, k.retry = time.Now(), text, false, 0
	}
	none := k.material == nil && errors.Is(err, ErrNone)
	settled := first || none || time.Since(k.broken) >= settling
	if none {
		k.broken = time.Time{} // nothing is wrong; an event will tell
	}
	if !asked && (k.told || !settled) {
		return
	}
	if !none && !k.told {
		k.failures.Inc()
	}
	k.told = true
	k.tell(err, false)
}

// mended forgets the last failure.
func (k *keeper) mended() {
	k.broken, k.failure, k.told, k.retry = time.Time{}, "", false, 0
}

func (k *keeper) tell(err error, fresh bool) {
	if k.cfg.Changed == nil {
		return
	}
	c := Change{Err: err, New: fresh}
	if k.material != nil {
		c.Serving, c.NotBefore, c.NotAfter = true, k.material.pair.Leaf.NotBefore, k.material.notAfter()
	}
	k.cfg.Changed(c)
}

func (k *keeper) unwatch() {
	if k.watcher != nil {
		k.watcher.close()
	}
}

// reload makes for a look soon.
func (k *keeper) reload() {
	select {
	case k.ask <- struct{}{}:
	default:
	}
}

// configForClient is a GetConfigForClient. The keys of session tickets are
// those of the configuration that it belongs to, and so outlive certificates.
func (k *keeper) configForClient(*tls.ClientHelloInfo) (*tls.Config, error) {
	return k.current.Load(), nil
}

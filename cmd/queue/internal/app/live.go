package app

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"go.uber.org/atomic"
	"go.uber.org/zap"

	"github.com/queuegate/queuegate/cmd/queue/internal/config"
	"github.com/queuegate/queuegate/internal/filewatch"
	"github.com/queuegate/queuegate/pkg/gate"
)

const (
	// livePoll is the interval between reads of the files without inotify.
	livePoll = 10 * time.Second
	// After an error, the time between attempts to read a file doubles from
	// firstLiveRetry to lastLiveRetry.
	firstLiveRetry = 50 * time.Millisecond
	lastLiveRetry  = time.Minute
	// maxLiveBytes limits the memory for a file. Config.Live has a lower limit.
	maxLiveBytes = 2 << 20
)

// liveSettings applies the settings in the pod's annotations and in SETTINGS_FILE when
// the gate starts and on each change of the files. Invalid settings change nothing.
//
//	idle ──start──▶ started ──follow──▶ following ──close──▶ closed
//
// Without files that could change, follow does nothing.
type liveSettings struct {
	base  *config.Config
	log   *zap.Logger
	paths []string // files that exist or may be created later

	state atomic.Pointer[liveState]
	// These three fields need no lock. The method start uses them first. Afterwards, only
	// the goroutine that the method follow starts uses them.
	applied config.LiveFiles  // files in force
	invalid *config.LiveFiles // invalid files, not to be reported again; nil = none
	retry   time.Duration     // after an error, time until the next attempt; 0 = no error

	watcher *filewatch.Watcher // nil: the files are read every livePoll
	stop    chan struct{}
	stopped sync.WaitGroup
}

// liveState is the result of the latest attempt.
type liveState struct {
	gate.SettingsStats
	cfg *config.Config // configuration in force
}

func newLiveSettings(base *config.Config, log *zap.Logger) *liveSettings {
	l := &liveSettings{base: base, log: log, stop: make(chan struct{})}
	// Volumes are mounted before the gate starts, so a missing directory never appears.
	if isDirectory(filepath.Dir(base.AnnotationsFile)) {
		l.paths = append(l.paths, base.AnnotationsFile)
	}
	if base.SettingsFile != "" {
		l.paths = append(l.paths, base.SettingsFile)
	}
	l.state.Store(&liveState{cfg: base})
	return l
}

func isDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// start returns the initial configuration, or base if the files are invalid.
func (l *liveSettings) start() *config.Config {
	if len(l.paths) == 0 {
		return l.base
	}
	w, err := filewatch.New()
	if err == nil {
		l.watcher, err = w, w.Watch(l.paths)
	}
	if err != nil {
		l.log.Warn("the files of live settings are not watched for changes but read at intervals", zap.Duration("interval", livePoll), zap.Error(err))
	}
	l.check(func(*config.Config) error { return nil })
	return l.current()
}

// follow calls apply with each valid configuration that differs from the current one,
// until close.
func (l *liveSettings) follow(apply func(*config.Config) error) {
	if len(l.paths) == 0 {
		return
	}
	l.stopped.Go(func() {
		var events <-chan struct{}
		if l.watcher != nil {
			events = l.watcher.Changed()
		}
		for {
			var timer <-chan time.Time
			if wait := l.nextRead(); wait > 0 {
				timer = time.After(wait)
			}
			select {
			case <-l.stop:
				return
			case <-events:
				l.retry = 0
			case <-timer:
			}
			if l.watcher != nil {
				_ = l.watcher.Watch(l.paths)
			}
			l.check(apply)
		}
	})
}

// nextRead returns the time after which follow reads the files even without an event;
// 0 = never.
func (l *liveSettings) nextRead() time.Duration {
	switch {
	case l.retry > 0:
		return l.retry
	case l.watcher == nil:
		return livePoll
	}
	return 0
}

func (l *liveSettings) close() {
	close(l.stop)
	l.stopped.Wait()
	if l.watcher != nil {
		l.watcher.Close()
	}
}

// current returns the configuration in force.
func (l *liveSettings) current() *config.Config { return l.state.Load().cfg }

// stats returns the state for metrics and the status page.
func (l *liveSettings) stats() gate.SettingsStats { return l.state.Load().SettingsStats }

// check reads the files and applies them if they differ from the files in force.
func (l *liveSettings) check(apply func(*config.Config) error) {
	files, err := l.readFiles()
	if err != nil {
		l.retry = min(max(2*l.retry, firstLiveRetry), lastLiveRetry)
		l.invalid = nil
		l.failed(err)
		return
	}
	l.retry = 0
	before := l.state.Load()
	switch {
	case files == l.applied:
		l.invalid = nil
		l.valid(before)
		return
	case l.invalid != nil && files == *l.invalid:
		return
	}
	cfg, err := l.base.Live(files)
	var changes []string
	if err == nil {
		if changes = before.cfg.Changes(cfg); len(changes) > 0 { // otherwise only unrelated annotations have changed
			err = apply(cfg)
		}
	}
	if err != nil {
		l.invalid = &files
		l.failed(err)
		return
	}
	l.applied, l.invalid = files, nil
	if len(changes) == 0 {
		l.valid(before)
		return
	}
	now := &liveState{gate.SettingsStats{Generation: before.Generation + 1}, cfg}
	l.state.Store(now)
	l.log.Info("the settings of the service have changed", zap.Uint64("generation", now.Generation), zap.Strings("changed", changes))
}

// valid is called when the files are valid and change no setting. The parameter state is
// the current state. If it has an error from an earlier attempt, valid clears the error.
func (l *liveSettings) valid(state *liveState) {
	if state.Error == "" {
		return
	}
	l.state.Store(&liveState{gate.SettingsStats{Generation: state.Generation}, state.cfg})
	l.log.Info("the settings of the service are valid again", zap.Uint64("generation", state.Generation))
}

// failed reports that the latest settings were not applied, once per error.
func (l *liveSettings) failed(err error) {
	before := l.state.Load()
	if before.Error == err.Error() {
		return
	}
	l.state.Store(&liveState{gate.SettingsStats{Generation: before.Generation, Error: err.Error()}, before.cfg})
	l.log.Error("the settings of the service are invalid; the previous ones stay in force",
		zap.Uint64("generation", before.Generation), zap.Strings("problems", strings.Split(err.Error(), "\n")))
}

// readFiles reads the files. The annotations may be missing, SETTINGS_FILE may not.
func (l *liveSettings) readFiles() (files config.LiveFiles, err error) {
	for _, path := range l.paths {
		text, failed := readLiveFile(path)
		switch {
		case path == l.base.SettingsFile:
			files.Settings = text
		default:
			files.Annotations = text
			if errors.Is(failed, fs.ErrNotExist) {
				failed = nil
			}
		}
		err = errors.Join(err, failed)
	}
	return files, err
}

func readLiveFile(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("reading settings: %w", err)
	}
	if info.Size() > maxLiveBytes || !info.Mode().IsRegular() {
		return "", fmt.Errorf("reading settings of %s: want a file of at most %d bytes", path, maxLiveBytes)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("reading settings: %w", err)
	}
	return string(text), nil
}

// CheckLive returns the configuration with which a gate would start. If the files are
// invalid, it returns cfg and an error.
func CheckLive(cfg *config.Config) (*config.Config, error) {
	l := newLiveSettings(cfg, zap.NewNop())
	files, err := l.readFiles()
	if err != nil {
		return cfg, err
	}
	live, err := cfg.Live(files)
	if err != nil {
		return cfg, err
	}
	return live, nil
}

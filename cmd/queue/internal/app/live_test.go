package app

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	logtest "go.uber.org/zap/zaptest/observer"

	"github.com/queuegate/queuegate/cmd/queue/internal/config"
)

// serviceFiles holds the paths of the files that set live settings.
type serviceFiles struct {
	t                     *testing.T
	annotations, settings string
}

func newServiceFiles(t *testing.T) *serviceFiles {
	dir := t.TempDir()
	return &serviceFiles{t, filepath.Join(dir, "annotations"), filepath.Join(dir, "settings")}
}

// put replaces a file atomically, as Kubernetes does.
func (f *serviceFiles) put(path, text string) {
	f.t.Helper()
	if err := errors.Join(os.WriteFile(path+".new", []byte(text), 0o600), os.Rename(path+".new", path)); err != nil {
		f.t.Fatal(err)
	}
}

func (f *serviceFiles) config(args ...string) *config.Config {
	f.t.Helper()
	none := func(string) (string, bool) { return "", false }
	cfg, _, _, err := config.Load(append(args, "--annotations-file", f.annotations, "--settings-file", f.settings), none, nil)
	if err != nil {
		f.t.Fatal(err)
	}
	return cfg
}

func TestInvalidFilesAtTheStartAreIgnored(t *testing.T) {
	f := newServiceFiles(t)
	f.put(f.settings, "concurrency=5")
	f.put(f.annotations, `queuegate.dev/timeout="never"`)
	core, logged := logtest.New(zapcore.DebugLevel)
	l := newLiveSettings(f.config("--concurrency", "2"), zap.New(core))
	cfg := l.start()
	defer l.close()
	if cfg.Gate.ConcurrencyLimit != 2 {
		t.Errorf("limit %d, want 2 from the flag", cfg.Gate.ConcurrencyLimit)
	}
	if s := l.stats(); s.Generation != 0 || s.Error != `queuegate.dev/timeout="never": want whole seconds, 1 or more` {
		t.Errorf("%+v", s)
	}
	if n := logged.FilterLevelExact(zapcore.ErrorLevel).Len(); n != 1 {
		t.Errorf("%d errors in the log, want one", n)
	}
}

func TestEachChangeIsAppliedOnce(t *testing.T) {
	f := newServiceFiles(t)
	f.put(f.settings, "concurrency=5")
	core, logged := logtest.New(zapcore.DebugLevel)
	l := newLiveSettings(f.config(), zap.New(core))
	if cfg := l.start(); cfg.Gate.ConcurrencyLimit != 5 || l.stats().Generation != 1 {
		t.Fatalf("limit %d, %+v", cfg.Gate.ConcurrencyLimit, l.stats())
	}
	defer l.close()
	var refuse error
	applied := 0
	check := func(wantLimit int, wantGeneration uint64, wantError string, wantApplied int) {
		t.Helper()
		applied = 0
		l.check(func(*config.Config) error { applied++; return refuse })
		s := l.stats()
		if got := l.current().Gate.ConcurrencyLimit; got != wantLimit || s.Generation != wantGeneration || !strings.Contains(s.Error, wantError) ||
			(wantError == "") != (s.Error == "") || applied != wantApplied {
			t.Fatalf("limit %d, %+v, applied %d times; want %d, %d, %q, %d", got, s, applied, wantLimit, wantGeneration, wantError, wantApplied)
		}
	}
	check(5, 1, "", 0)
	f.put(f.annotations, `queuegate.dev/concurrency="7"`)
	check(7, 2, "", 1)
	check(7, 2, "", 0)
	f.put(f.annotations, `queuegate.dev/concurrency="seven"`)
	check(7, 2, `concurrency="seven"`, 0)
	errorsLogged := logged.FilterLevelExact(zapcore.ErrorLevel).Len()
	check(7, 2, `concurrency="seven"`, 0)
	if n := logged.FilterLevelExact(zapcore.ErrorLevel).Len(); n != errorsLogged {
		t.Error("an error is logged twice")
	}
	f.put(f.annotations, `queuegate.dev/concurrency="7"`)
	check(7, 2, "", 0) // the same settings as before the error
	f.put(f.annotations, "other=\"annotation\"\nqueuegate.dev/concurrency=\"7\"")
	check(7, 2, "", 0) // no setting changed
	if err := os.Remove(f.settings); err != nil {
		t.Fatal(err)
	}
	check(7, 2, "no such file", 0)
	f.put(f.settings, "")
	check(7, 2, "", 0) // the annotation overrides the file
	refuse = errors.New("refused")
	f.put(f.annotations, "")
	check(7, 2, "refused", 1)
	refuse = nil
	f.put(f.annotations, " ")
	check(0, 3, "", 1)
}

func TestAChangeOfAFileIsNoticed(t *testing.T) {
	f := newServiceFiles(t)
	f.put(f.settings, "")
	l := newLiveSettings(f.config(), zap.NewNop())
	l.start()
	limits := make(chan int)
	l.follow(func(cfg *config.Config) error {
		limits <- cfg.Gate.ConcurrencyLimit
		return nil
	})
	defer l.close()
	for want := range 4 {
		f.put(f.annotations, "queuegate.dev/concurrency=\""+string(rune('1'+want))+"\"")
		if got := <-limits; got != want+1 {
			t.Fatalf("limit %d, want %d", got, want+1)
		}
	}
}

func TestWithoutFilesNothingIsWatched(t *testing.T) {
	dir := t.TempDir()
	none := func(string) (string, bool) { return "", false }
	cfg, _, _, err := config.Load([]string{"--annotations-file", filepath.Join(dir, "podinfo", "annotations")}, none, nil)
	if err != nil {
		t.Fatal(err)
	}
	l := newLiveSettings(cfg, zap.NewNop())
	if got := l.start(); got != cfg || l.watcher != nil {
		t.Error("files that cannot exist are watched")
	}
	l.follow(nil)
	l.close()
}

// appliedFields are the fields of a config.Config that App.apply applies. The names that
// begin with "Gate." must be the fields listed in the comment of exchange.Gate.Apply.
var appliedFields = []string{
	"Gate.ConcurrencyLimit", "Gate.QueueCapacity", "Gate.QueueRefusalStatus", "Gate.QueueMaxWait", "Gate.Overload",
	"Gate.RequestTimeout", "Gate.ResponseStartTimeout", "Gate.IdleTimeout", "Gate.TunnelMax", "Gate.UpstreamWait", "Gate.UpstreamRestartWait",
	"Gate.WaitKeepalive", "Gate.WaitPage",
	"EngineMaxWaiting", "EngineMaxKV",
	"RequestLog", "RequestLogTemplate", "RequestLogProbes",
	// The loader copies Concurrency to Gate.ConcurrencyLimit and Gate.Overload.AutoLimit,
	// which are applied.
	"Concurrency",
}

func TestEveryLiveSettingIsApplied(t *testing.T) {
	f := newServiceFiles(t)
	base := f.config("--queue-cost-by", "length", "--queue-cost-limit", "1000", "--queue-priority-by", "header:Class")
	values := map[string]string{
		"queue-cost-by": "header:Cost", "engine-max-kv": "0.5",
		"concurrency": "3", "queue-fair-by": "peer", "queue-priority-by": "header:Priority", "queue-evict": "class>=6,after=2s", "queue-deadline-by": "header:Deadline",
		"queue-retry-after": "measured", "queue-refusal-status": "429", "request-log": "true", "request-log-template": "json", "probe-request-log": "true",
	}
	for _, flag := range config.LiveFlags() {
		value, ok := values[flag]
		if !ok {
			value = "77" // a number or a duration
		}
		live, err := base.Live(config.LiveFiles{Settings: flag + "=" + value})
		if err != nil {
			t.Error(err)
			continue
		}
		changed := append(changedFields("", *base, *live), changedFields("Gate.", base.Gate, live.Gate)...)
		for _, name := range changed {
			if name != "Gate" && !slices.Contains(appliedFields, name) {
				t.Errorf("%s changes %s, which is not applied", flag, name)
			}
		}
		if len(changed) == 0 {
			t.Errorf("%s changes nothing", flag)
		}
	}
}

// changedFields returns the exported fields that differ between two structs.
func changedFields(prefix string, a, b any) (names []string) {
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	for i := range x.NumField() {
		if field := x.Type().Field(i); field.IsExported() && field.Type.Kind() != reflect.Func && !reflect.DeepEqual(x.Field(i).Interface(), y.Field(i).Interface()) {
			names = append(names, prefix+field.Name)
		}
	}
	return names
}

package config

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/queuegate/queuegate/pkg/gate/admission"
)

func mustLive(t *testing.T, c *Config, files LiveFiles) *Config {
	t.Helper()
	live, err := c.Live(files)
	if err != nil {
		t.Fatalf("%+v: %v", files, err)
	}
	return live
}

// annotation returns a line KEY="VALUE", as the downward API writes it. The downward
// API quotes the value as Go's %q does.
func annotation(flag, value string) string {
	return fmt.Sprintf("%s%s=%q\n", AnnotationPrefix, flag, value)
}

// companions maps the flag of a live setting to a second setting, FLAG=VALUE, without
// which the first setting is invalid.
var companions = map[string]string{"queue-cost-by": "queue-cost-limit=9", "queue-cost-limit": "queue-cost-by=length", "queue-evict": "queue-priority-by=header:Priority"}

func TestALiveSettingHasTheEffectOfItsFlag(t *testing.T) {
	base := mustLoad(t, nil, nil)
	live := 0
	for _, s := range knownSettings() {
		if !s.value.isLive() {
			continue
		}
		live++
		args, annotations, settings := []string{"--" + s.flag + "=" + allDifferent[s.name]}, annotation(s.flag, allDifferent[s.name]), s.flag+"="+allDifferent[s.name]
		if companion, ok := companions[s.flag]; ok {
			flag, value, _ := strings.Cut(companion, "=")
			args, annotations, settings = append(args, "--"+companion), annotations+annotation(flag, value), settings+"\n"+companion
		}
		want := fields(mustLoad(t, args, nil))
		for _, files := range []LiveFiles{{Annotations: annotations}, {Settings: settings}} {
			got := fields(mustLive(t, base, files))
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%+v:\ngot  %+v\nwant %+v", files, got, want)
			}
			if reflect.DeepEqual(got, fields(base)) {
				t.Errorf("%+v changes nothing", files)
			}
		}
	}
	if live == 0 || len(LiveFlags()) != live {
		t.Errorf("%d live settings, flags %v", live, LiveFlags())
	}
}

func TestAnnotationsOverrideTheSettingsFileWhichOverridesFlagsAndEnvironment(t *testing.T) {
	base := mustLoad(t, []string{"--concurrency", "2"}, map[string]string{"QUEUE_MAX_WAIT": "3s", "REVISION_TIMEOUT_SECONDS": "60"})
	live := mustLive(t, base, LiveFiles{
		Settings:    "# of the team\nconcurrency=\"4\"\n\nqueue-max-wait = 5s\nqueuegate.dev/timeout=\"70\"\n",
		Annotations: "kubectl.kubernetes.io/last-applied=\"{\\\"a\\\":1}\\n\"\n" + annotation("concurrency", "6"),
	})
	if live.Gate.ConcurrencyLimit != 6 || live.Gate.QueueCapacity != 60 || live.Gate.QueueMaxWait != 5*time.Second || live.Gate.RequestTimeout != 70*time.Second {
		t.Errorf("%+v", live.Gate)
	}
	for name, want := range map[string]string{
		"CONTAINER_CONCURRENCY": "annotation, queuegate.dev/concurrency", "QUEUE_MAX_WAIT": "file, SETTINGS_FILE queue-max-wait",
		"QUEUE_CAPACITY": "default",
	} {
		if got := live.setting(name).origin(); got != want {
			t.Errorf("%s comes from %q, want %q", name, got, want)
		}
	}
	if got := fields(mustLive(t, base, LiveFiles{})); !reflect.DeepEqual(got, fields(base)) {
		t.Errorf("without lines: %+v, want the configuration of the start", got)
	}
	if got := mustLive(t, base, LiveFiles{Settings: "concurrency=4", Annotations: annotation("concurrency", "")}); got.Gate.ConcurrencyLimit != 2 {
		t.Errorf("an empty annotation: limit %d, want 2 from the flag", got.Gate.ConcurrencyLimit)
	}
}

func TestALiveSettingSwitchesBetweenAFixedAndAnAdaptiveLimit(t *testing.T) {
	base := mustLoad(t, []string{"--concurrency", "2"}, nil)
	live := mustLive(t, base, LiveFiles{Annotations: annotation("concurrency", "auto:2-9")})
	if auto := live.Gate.Overload.AutoLimit; auto == nil || *auto != (admission.LimitRange{Min: 2, Max: 9}) || live.Gate.ConcurrencyLimit != 0 || live.Gate.Overload.QueuePerSlot == 0 {
		t.Errorf("%+v", live.Gate)
	}
	base = mustLoad(t, []string{"--concurrency", "auto"}, nil)
	live = mustLive(t, base, LiveFiles{Annotations: annotation("concurrency", "3")})
	if live.Gate.Overload.AutoLimit != nil || live.Gate.ConcurrencyLimit != 3 || live.Gate.QueueCapacity != 30 {
		t.Errorf("%+v", live.Gate)
	}
}

func TestProblemsOfLiveSettingsAreReportedTogetherAndNameTheSetting(t *testing.T) {
	base := mustLoad(t, nil, map[string]string{"SETTINGS_ALLOW": "concurrency,timeout,request-log,queue-max-wait,request-log-template"})
	for _, c := range []struct {
		files LiveFiles
		want  []string
	}{
		{LiveFiles{Annotations: annotation("concurrency", "-1") + annotation("timeout", "0")}, []string{
			`queuegate.dev/concurrency="-1": want a whole number from 0 to 1048576, auto, or auto:MIN-MAX`,
			`queuegate.dev/timeout="0": want whole seconds, 1 or more`}},
		{LiveFiles{Annotations: annotation("concurency", "1"), Settings: "port=80\nx=1\n"}, []string{
			`SETTINGS_FILE port="80": not a live setting: only a flag or QUEUE_SERVING_PORT sets it, at the start`,
			`SETTINGS_FILE x="1": not a setting`,
			`queuegate.dev/concurency="1": not a setting; did you mean concurrency?`}},
		{LiveFiles{Annotations: annotation("queue-capacity", "5")}, []string{`queuegate.dev/queue-capacity="5": SETTINGS_ALLOW does not have it`}},
		{LiveFiles{Annotations: annotation("timeout", "5") + annotation("timeout", "6")}, []string{`queuegate.dev/timeout="6": want it once`}},
		{LiveFiles{Settings: "timeout\n", Annotations: AnnotationPrefix + "timeout=\"5\n"}, []string{
			`SETTINGS_FILE: line 1: want KEY="VALUE"`, `ANNOTATIONS_FILE: line 1: want KEY="VALUE"`}},
		{LiveFiles{Settings: strings.Repeat("#", maxLiveText+1)}, []string{`SETTINGS_FILE: want at most 1048576 bytes`}},
		{LiveFiles{Annotations: annotation("request-log", "true") + annotation("request-log-template", "{{")}, []string{
			`queuegate.dev/request-log-template="{{": want json, or a Go template over .Request, .Response, .Revision and .TraceID: ` +
				`line:1: unclosed action`}},
	} {
		live, err := base.Live(c.files)
		if err == nil || live != nil {
			t.Errorf("%+v is accepted", c.files)
			continue
		}
		if got := strings.Split(err.Error(), "\n"); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%.100v:\ngot  %q\nwant %q", c.files, got, c.want)
		}
	}
}

func TestAnnotationsOfInjectAreIgnored(t *testing.T) {
	base := mustLoad(t, nil, nil)
	if got := fields(mustLive(t, base, LiveFiles{Annotations: annotation("injected", "AAAA")})); !reflect.DeepEqual(got, fields(base)) {
		t.Errorf("%+v", got)
	}
}

func TestSettingsAllowAcceptsOnlyLiveSettingsOrNone(t *testing.T) {
	if got := problemsOf(t, []string{"--settings-allow", "concurrency,port"}, nil); len(got) != 1 ||
		!strings.HasPrefix(got[0], `SETTINGS_ALLOW="concurrency,port": want flags of live settings (concurrency, `) || !strings.HasSuffix(got[0], `: "port" is not one`) {
		t.Errorf("%q", got)
	}
	none := mustLoad(t, nil, map[string]string{"SETTINGS_ALLOW": "none"})
	if _, err := none.Live(LiveFiles{Annotations: annotation("concurrency", "1")}); err == nil {
		t.Error("a setting is accepted although none is allowed")
	}
}

func FuzzLiveFiles(f *testing.F) {
	f.Add(annotation("concurrency", "5"), "timeout=3")
	f.Add("queuegate.dev/=\"\"\n", "=\n#\n\"")
	base, _, _, err := load(nil, nil)
	if err != nil {
		f.Fatal(err)
	}
	before := fields(base)
	f.Fuzz(func(t *testing.T, annotations, settings string) {
		live, err := base.Live(LiveFiles{annotations, settings})
		if (live == nil) != (err != nil) {
			t.Errorf("configuration %v and error %v", live, err)
		}
		if !reflect.DeepEqual(fields(base), before) {
			t.Error("the configuration of the start has changed")
		}
	})
}

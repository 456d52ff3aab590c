package config

import (
	"strings"
	"testing"
)

func shownOf(t *testing.T, env, value string) (string, bool) {
	t.Helper()
	cfg := mustLoad(t, nil, map[string]string{env: value})
	return cfg.setting(env).shown()
}

func TestSecretsInSettingsAreMaskedAndTheRestIsShown(t *testing.T) {
	for _, row := range []struct{ env, value, want string }{
		{"TRACING_CONFIG_ZIPKIN_ENDPOINT", "https://me:SECRET@zipkin:9411/api/SECRET?key=SECRET", "https://•••@zipkin:9411/•••"},
		{"METRICS_COLLECTOR_ADDRESS", "http://collector/?SECRET", "http://collector/•••"},
		{"SERVING_READINESS_PROBE", `{"httpGet":{"path":"/ok?token=SECRET","port":80,"httpHeaders":[{"name":"Authorization","value":"SECRET"}]},"timeoutSeconds":2}`,
			`{"httpGet":{"httpHeaders":[{"name":"Authorization","value":"•••"}],"path":"/ok?•••","port":80},"timeoutSeconds":2}`},
		{"KUBE_APP_PROBERS", `{"/app-health/web/livez":{"httpGet":{"path":"/","port":80,"httpHeaders":[{"name":"X","value":"SECRET"}]}}}`,
			`{"/app-health/web/livez":{"httpGet":{"httpHeaders":[{"name":"X","value":"•••"}],"path":"/","port":80}}}`},
		{"OBSERVABILITY_CONFIG", `{"tracing":{"protocol":"zipkin","endpoint":"http://u:SECRET@z/SECRET","samplingRate":0.25},"EnableVarLogCollection":true,"LoggingURLTemplate":"http://SECRET"}`,
			`{"EnableVarLogCollection":true,"LoggingURLTemplate":"•••","tracing":{"endpoint":"http://•••@z/•••","protocol":"zipkin","samplingRate":0.25}}`},
		{"SERVING_LOGGING_CONFIG", `{"level":"info","initialFields":{"name":"SECRET","n":1},"outputPaths":["stdout"]}`,
			`{"initialFields":{"n":"•••","name":"•••"},"level":"info","outputPaths":["stdout"]}`},
		{"ROOT_CA", "SECRET", "•••"},
	} {
		got, hidden := shownOf(t, row.env, row.value)
		if got != row.want || !hidden {
			t.Errorf("%s is shown as %s (hidden: %t), want %s", row.env, got, hidden, row.want)
		}
		if strings.Contains(got, "SECRET") {
			t.Errorf("%s shows a secret: %s", row.env, got)
		}
	}
}

func TestWhatHasNoSecretIsShownAsCheckPrintsIt(t *testing.T) {
	cfg := mustLoad(t, nil, allDifferent)
	printed := readCheck(t, checkOutput(t, cfg))
	for _, s := range cfg.settings {
		got, hidden := s.shown()
		if s.value.about().hint == "ENDPOINT" || s.value.about().hint == "JSON" || s.name == "ROOT_CA" {
			continue // the test above
		}
		if hidden || got != oneLine(printed[s.name]) {
			t.Errorf("%s is shown as %q (hidden: %t), want %q", s.name, got, hidden, oneLine(printed[s.name]))
		}
	}
}

func TestAKindThatDoesNotSayHowItIsShownIsMasked(t *testing.T) {
	field := "secret"
	s := setting{row: row{value: textKind("TEXT", "any text", nil, accept(anyText)).at(&field)}}
	if got, hidden := s.shown(); got != masked || !hidden {
		t.Errorf("shown as %q (hidden: %t)", got, hidden)
	}
}

func TestEverySettingIsShownInTheOrderOfTheTable(t *testing.T) {
	cfg := mustLoad(t, []string{"--user-port=81"}, map[string]string{"CONTAINER_CONCURRENCY": "2"})
	all := cfg.Shown()
	if len(all) != len(cfg.settings) {
		t.Fatalf("%d of %d settings", len(all), len(cfg.settings))
	}
	want := map[string]Shown{
		"USER_PORT":             {Group: "Traffic", Name: "USER_PORT", Value: "81", Source: "flag"},
		"CONTAINER_CONCURRENCY": {Group: "Admission", Name: "CONTAINER_CONCURRENCY", Value: "2", Empty: "0 = unlimited", Source: "environment"},
	}
	for i, s := range all {
		if want := &cfg.settings[i]; want.name != s.Name || want.group != s.Group {
			t.Errorf("%s in %s, want %s in %s", s.Name, s.Group, want.name, want.group)
		}
		if w, known := want[s.Name]; known && s != w {
			t.Errorf("%+v, want %+v", s, w)
		}
	}
}

package config

import (
	"strings"
	"testing"
)

func shownOf(t *testing.T, env, value string) (string, bool) {
	t.Helper()
	cfg := mustLoad(t, nil, map[string]string{env: value})
	return settings[settingIndex(env)].shown(&cfg)
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
	printed := readCheck(t, checkOutput(t, &cfg))
	for i := range settings {
		s := &settings[i]
		got, hidden := s.shown(&cfg)
		switch s.field(&cfg).(type) {
		case *endpointValue, *readinessProbeValue, *proberMapValue, *observabilityValue, *loggingConfigValue:
			continue // the test above
		}
		if s.env != "ROOT_CA" && (hidden || got != oneLine(printed[s.env])) {
			t.Errorf("%s is shown as %q (hidden: %t), want %q", s.env, got, hidden, oneLine(printed[s.env]))
		}
	}
}

func TestASettingOfAnUnknownTypeIsMasked(t *testing.T) {
	s := setting{env: "NEW", field: func(*Config) fieldValue { return newType{} }}
	if got, hidden := s.shown(new(Config)); got != masked || !hidden {
		t.Errorf("shown as %q (hidden: %t)", got, hidden)
	}
}

type newType struct{ fieldValue }

func (newType) text() string { return "secret" }

func TestEverySettingIsShownInTheOrderOfTheTable(t *testing.T) {
	cfg := mustLoad(t, []string{"--user-port=81"}, map[string]string{"CONTAINER_CONCURRENCY": "2"})
	all := cfg.Shown()
	if len(all) != len(settings) {
		t.Fatalf("%d of %d settings", len(all), len(settings))
	}
	want := map[string]Shown{
		"USER_PORT":             {Group: groupTraffic, Name: "USER_PORT", Value: "81", Source: "flag"},
		"CONTAINER_CONCURRENCY": {Group: groupAdmission, Name: "CONTAINER_CONCURRENCY", Value: "2", Empty: "0 = unlimited", Source: "environment"},
	}
	for i, s := range all {
		if settings[i].env != s.Name || settings[i].group != s.Group {
			t.Errorf("%s in %s, want %s in %s", s.Name, s.Group, settings[i].env, settings[i].group)
		}
		if w, known := want[s.Name]; known && s != w {
			t.Errorf("%+v, want %+v", s, w)
		}
	}
}

package config

import (
	"strings"
	"testing"

	"github.com/queuegate/queuegate/pkg/metrics/statuspage"
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
		{"OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20SECRET,x-tenant=SECRET", "authorization=•••,x-tenant=•••"},
		{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://u:SECRET@otel/SECRET", "https://•••@otel/•••"},
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

func TestAnEndpointWithoutASchemeIsShownWithoutItsSecrets(t *testing.T) {
	for endpoint, want := range map[string]string{
		"collector:4318": "collector:4318", "stdout": "stdout", "/var/log/gate.log": "/var/log/gate.log", "logs/gate.log": "logs/gate.log", "collector:4318/": "collector:4318/",
		"collector:4318/v1/SECRET": "collector:4318/•••", "collector:4318?key=SECRET": "collector:4318?•••", "collector:4318/v1?key=SECRET": "collector:4318/•••",
		"me:SECRET@collector:4318": "•••@collector:4318", "me:SECRET@collector:4318/v1": "•••@collector:4318/•••", "collector#SECRET": "collector#•••",
	} {
		if shown, hidden := maskEndpoint(endpoint); shown != want || hidden != (want != endpoint) {
			t.Errorf("%s is shown as %s (hidden: %t), want %s", endpoint, shown, hidden, want)
		}
	}
}

func TestSettingsWithoutSecretsAreShownUnmaskedAsInTheOutputOfCheck(t *testing.T) {
	cfg := mustLoad(t, nil, allDifferent)
	printed := readCheck(t, checkOutput(t, cfg))
	for _, s := range cfg.settings {
		got, hidden := s.shown()
		if s.value.about().hint == "ENDPOINT" || s.value.about().hint == "JSON" || s.value.about().hint == "HEADERS" || s.name == "ROOT_CA" {
			continue // covered by the test above
		}
		if hidden || got != oneLine(printed[s.name]) {
			t.Errorf("%s is shown as %q (hidden: %t), want %q", s.name, got, hidden, oneLine(printed[s.name]))
		}
	}
}

func TestASettingOfAKindWithoutAShowFunctionIsMasked(t *testing.T) {
	field := "secret"
	s := setting{row: row{value: textKind("TEXT", "any text", nil, accept(anyText)).bind(&field)}}
	if got, hidden := s.shown(); got != masked || !hidden {
		t.Errorf("shown as %q (hidden: %t)", got, hidden)
	}
}

func TestEverySettingIsShownInTheOrderOfTheTable(t *testing.T) {
	cfg := mustLoad(t, []string{"--user-port=81"}, map[string]string{"CONTAINER_CONCURRENCY": "2"})
	want := map[string]statuspage.Setting{
		"USER_PORT":             {Name: "USER_PORT", Value: "81", Source: "flag"},
		"CONTAINER_CONCURRENCY": {Name: "CONTAINER_CONCURRENCY", Value: "2", Empty: "0 = unlimited", Source: "environment"},
	}
	i := 0
	for _, group := range cfg.Shown() {
		for _, s := range group.Settings {
			if row := &cfg.settings[i]; row.name != s.Name || row.group != group.Title {
				t.Fatalf("%s in %s, want %s in %s", s.Name, group.Title, row.name, row.group)
			}
			if w, known := want[s.Name]; known && s != w {
				t.Errorf("%+v, want %+v", s, w)
			}
			i++
		}
	}
	if i != len(cfg.settings) {
		t.Errorf("%d of %d settings", i, len(cfg.settings))
	}
}

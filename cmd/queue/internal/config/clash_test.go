package config

import (
	"strings"
	"testing"
)

func TestTwoListenersOnTheSamePortAreRejected(t *testing.T) {
	for _, c := range []struct {
		variables []string
		want      string
	}{
		{[]string{"USER_PORT", "8012"}, "QUEUE_SERVING_PORT=8012 (default): want a port other than that of USER_PORT (environment)"},
		{[]string{"QUEUE_SERVING_PORT", "8080"}, "QUEUE_SERVING_PORT=8080 (environment): want a port other than that of USER_PORT (default)"},
		{[]string{"ADMIN_PORT", "8012"}, "ADMIN_PORT=8012 (environment): want a port other than that of QUEUE_SERVING_PORT (default)"},
		{[]string{"APP_PROBE_PORT", "8022"}, "APP_PROBE_PORT=8022 (environment): want a port other than that of ADMIN_PORT (default)"},
		{[]string{"USER_PORT", "9090"}, "AUTOSCALER_METRICS_PORT=9090 (default): want a port other than that of USER_PORT (environment)"},
		{[]string{"METRICS_PORT", "9090"}, "METRICS_PORT=9090 (environment): want a port other than that of AUTOSCALER_METRICS_PORT (default)"},
		{[]string{"OBSERVABILITY_CONFIG", `{"requestMetrics":{"endpoint":":8022"}}`}, "METRICS_PORT=8022 (environment): want a port other than that of ADMIN_PORT (default)"},
		{[]string{"ENABLE_PROFILING", "true", "PROFILING_PORT", "8080"}, "PROFILING_PORT=8080 (environment): want a port other than that of USER_PORT (default)"},
		{[]string{"QUEUE_SERVING_TLS_PORT", "8012"}, "QUEUE_SERVING_TLS_PORT=8012 (environment): want a port other than that of QUEUE_SERVING_PORT (default)"},
		{[]string{"STATUS_PORT", "9091"}, "STATUS_PORT=9091 (environment): want a port other than that of METRICS_PORT (default)"},
		{[]string{"STATUS_PORT", "8022", "LISTEN_ADDRESS", "::"}, "STATUS_PORT=8022 (environment): want a port other than that of ADMIN_PORT (default)"},
		{[]string{"STATUS_PORT", "8022", "LISTEN_ADDRESS", "127.0.0.1"}, "STATUS_PORT=8022 (environment): want a port other than that of ADMIN_PORT (default)"},
	} {
		problems := problemsOf(t, nil, with(nil, c.variables...))
		if len(problems) != 1 || problems[0] != c.want {
			t.Errorf("%q:\ngot  %s\nwant %s", c.variables, strings.Join(problems, "\n     "), c.want)
		}
	}
	// One line for each setting, not for each pair.
	if problems := problemsOf(t, []string{"--user-port=8012", "--admin-port=8012"}, nil); len(problems) != 2 {
		t.Errorf("got %q", problems)
	}
}

func TestPortsThatDoNotClashAreAccepted(t *testing.T) {
	for _, variables := range [][]string{
		{"AUTOSCALER_METRICS_PORT", "0", "USER_PORT", "9090"},
		{"ADMIN_PORT", "0", "AUTOSCALER_METRICS_PORT", "0", "METRICS_PORT", "0", "STATUS_PORT", "0", "APP_PROBE_PORT", "0", "QUEUE_SERVING_TLS_PORT", "0"},
		{"USER_PORT", "8008"}, // profiling is off
		{"SERVING_REQUEST_METRICS_BACKEND", "none", "USER_PORT", "9091"},
		{"OBSERVABILITY_CONFIG", `{"requestMetrics":{"protocol":"none"}}`, "USER_PORT", "9091"},
		{"LISTEN_ADDRESS", "10.0.0.1", "QUEUE_SERVING_PORT", "8080"},
		{"LISTEN_ADDRESS", "::1", "QUEUE_SERVING_PORT", "8080"},
		{"ENABLE_PROFILING", "true", "PROFILING_ADDRESS", "127.0.0.2", "PROFILING_PORT", "8080"},
		{"LISTEN_ADDRESS", "10.0.0.1", "OBSERVABILITY_CONFIG", `{"requestMetrics":{"endpoint":"10.0.0.2:8022"}}`},
	} {
		if _, _, warnings, err := load(nil, with(nil, variables...)); err != nil || warnings != nil {
			t.Errorf("%q: got %v and warnings %q", variables, err, warnings)
		}
	}
}

func TestDefaultPortsAreTurnedOffIfTheyAreInUse(t *testing.T) {
	for _, c := range []struct {
		variables   []string
		tls, status int
		warning     string
	}{
		{[]string{"USER_PORT", "8023"}, 8112, 0, "STATUS_PORT=8023 is off: USER_PORT has that port"},
		{[]string{"ADMIN_PORT", "8023"}, 8112, 0, "STATUS_PORT=8023 is off: ADMIN_PORT has that port"},
		{[]string{"QUEUE_SERVING_TLS_PORT", "8023"}, 8023, 0, "STATUS_PORT=8023 is off: QUEUE_SERVING_TLS_PORT has that port"},
		{[]string{"USER_PORT", "8112", "QUEUE_SERVING_TLS_PORT", "8112"}, 0, 8023, "QUEUE_SERVING_TLS_PORT=8112 is off: USER_PORT has that port"},
		{[]string{"QUEUE_SERVING_PORT", "8112"}, 0, 8023, "QUEUE_SERVING_TLS_PORT=8112 is off: QUEUE_SERVING_PORT has that port"},
	} {
		cfg, _, warnings, err := load(nil, with(nil, c.variables...))
		if err != nil || cfg.ServingTLSPort != c.tls || cfg.StatusPort != c.status || len(warnings) != 1 || warnings[0] != c.warning {
			t.Errorf("%q: got %v, %d, %d and warnings %q", c.variables, err, cfg.ServingTLSPort, cfg.StatusPort, warnings)
		}
	}
}

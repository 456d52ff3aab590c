package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

func warningsOf(t *testing.T, args []string, variables map[string]string) []string {
	t.Helper()
	_, _, warnings, err := load(args, variables)
	if err != nil {
		t.Fatal(err)
	}
	return warnings
}

// Kubernetes sets variables for the Services in the pod's namespace: a Service called
// metrics sets METRICS_PORT.
func TestAServiceLinkVariableInPlaceOfASettingCountsAsUnset(t *testing.T) {
	variables := map[string]string{"METRICS_PORT": "tcp://10.96.12.3:80", "ADMIN_PORT": "udp://10.96.12.4:53", "STATUS_PORT": "sctp://[fd00::1]:7",
		"USER_PORT": "81", "THREADS": "tcp://10.96.12.5:1"}
	cfg, _, warnings, err := load([]string{"--threads=3"}, variables)
	if err != nil || cfg.MetricsPort != 9091 || cfg.AdminPort != 8022 || cfg.StatusPort != 8023 || cfg.UserPort != 81 || cfg.Threads != 3 {
		t.Fatalf("got %+v, %v", cfg, err)
	}
	if cfg.IsSet("METRICS_PORT") || len(warnings) != 1 {
		t.Fatalf("given: %t, warnings %q", cfg.IsSet("METRICS_PORT"), warnings)
	}
	for _, name := range []string{`ADMIN_PORT="udp://10.96.12.4:53"`, `METRICS_PORT="tcp://10.96.12.3:80"`, `STATUS_PORT="sctp://[fd00::1]:7"`} {
		if !strings.Contains(warnings[0], name) {
			t.Errorf("%q does not name %s", warnings[0], name)
		}
	}
	if strings.Contains(warnings[0], "THREADS") {
		t.Errorf("%q names what a flag overrules", warnings[0])
	}

	// In a flag, the value of a Service link is an error: Kubernetes sets no flags.
	if problems := problemsOf(t, []string{"--metrics-port=tcp://10.96.12.3:80"}, nil); len(problems) != 1 {
		t.Errorf("got %q", problems)
	}
	cfg, _, _, _ = load(nil, map[string]string{"METRICS_PORT": "tcp://10.96.12.3:80", "OBSERVABILITY_CONFIG": `{"requestMetrics":{"endpoint":":9095"}}`})
	if cfg.MetricsPort != 9095 {
		t.Errorf("got port %d", cfg.MetricsPort)
	}
}

func TestAMisspeltVariableCausesAWarningWithTheRightName(t *testing.T) {
	for name, meant := range map[string]string{
		"CONTAINER_CONCURENCY": "CONTAINER_CONCURRENCY", "CONTAINER_CONCURRENYC": "CONTAINER_CONCURRENCY", "CONTANER_CONCURENCY": "CONTAINER_CONCURRENCY",
		"container_concurrency": "CONTAINER_CONCURRENCY", "USER_PROT": "USER_PORT", "USERPORT": "USER_PORT", "TRHEADS": "THREADS", "THREAD": "THREADS",
		"REVISION_TIMEOUT_SECOND": "REVISION_TIMEOUT_SECONDS", "ENABLE_MULTICONTAINER_PROBE": "ENABLE_MULTI_CONTAINER_PROBES",
		"QUEUE_PROXY_TLS_MIN_VERSON": "QUEUE_PROXY_TLS_MIN_VERSION", "ISTIO_KUBE_APP_PROBER": "ISTIO_KUBE_APP_PROBERS", "DRAIN-SOCKET": "DRAIN_SOCKET",
		"SERVING_PODS": "SERVING_POD", "OBSERVABILITY_CONFG": "OBSERVABILITY_CONFIG",
	} {
		want := []string{fmt.Sprintf("%s is not a setting: did you mean %s?", name, meant)}
		if got := warningsOf(t, nil, map[string]string{name: "5"}); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		if got := warningsOf(t, nil, map[string]string{name: ""}); got != nil {
			t.Errorf("%s is empty, and yet %q", name, got)
		}
	}
}

// surroundings returns variables of real containers, including Services whose names
// resemble settings.
func surroundings() map[string]string {
	variables := maps.Clone(knativeEnvironment)
	for _, name := range strings.Fields(`
		PATH HOME HOSTNAME TERM PWD OLDPWD SHLVL SHELL USER LOGNAME LANG LC_ALL TZ TMPDIR _ DEBIAN_FRONTEND SSL_CERT_FILE SSL_CERT_DIR
		HTTP_PROXY HTTPS_PROXY NO_PROXY http_proxy https_proxy no_proxy container
		GOMEMLIMIT GOMAXPROCS GOGC GODEBUG GOTRACEBACK GOROOT GOPATH GOCOVERDIR
		KUBERNETES_SERVICE_HOST KUBERNETES_SERVICE_PORT KUBERNETES_SERVICE_PORT_HTTPS KUBERNETES_PORT KUBERNETES_PORT_443_TCP
		KUBERNETES_PORT_443_TCP_PROTO KUBERNETES_PORT_443_TCP_PORT KUBERNETES_PORT_443_TCP_ADDR
		K_SERVICE K_CONFIGURATION K_REVISION PORT NODE_NAME NODE_IP POD_IP POD_IPS HOST_IPS POD_NAMESPACE POD_UID NAMESPACE SERVICE_ACCOUNT
		METRICS_DOMAIN CONFIG_LOGGING_NAME CONFIG_OBSERVABILITY_NAME CONFIG_LEADERELECTION_NAME SERVING_REQUEST_METRICS_REPORTING_PERIOD_SECONDS
		ENABLE_VAR_LOG_COLLECTION VAR_LOG_VOLUME_NAME INTERNAL_VOLUME_PATH USER_CONTAINER_NAME DOWNWARD_API_LABELS_PATH
		TRACING_CONFIG_STACKDRIVER_PROJECT_ID OTEL_EXPORTER_OTLP_ENDPOINT OTEL_SERVICE_NAME OTEL_RESOURCE_ATTRIBUTES
		OTEL_TRACES_EXPORTER OTEL_METRICS_EXPORTER OTEL_LOGS_EXPORTER OTEL_EXPORTER_OTLP_LOGS_ENDPOINT OTEL_METRIC_EXPORT_TIMEOUT OTEL_GO_X_RESOURCE
		OTEL_EXPORTER_OTLP_CLIENT_KEY OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE OTEL_BSP_SCHEDULE_DELAY OTEL_LOG_LEVEL
		GOOGLE_CLOUD_PROJECT GOOGLE_APPLICATION_CREDENTIALS AWS_REGION AWS_ROLE_ARN ISTIO_META_CLUSTER_ID PROXY_CONFIG`) {
		variables[name] = "1"
	}
	for _, service := range strings.Fields("METRICS METRIC ADMIN ADMINS STATUS STATS USER USERS QUEUE_SERVING SERVING APP_PROBE PROFILING THREADS") {
		link := "tcp://10.96.0.1:80"
		for name, text := range map[string]string{"_SERVICE_HOST": "10.96.0.1", "_SERVICE_PORT": "80", "_SERVICE_PORT_HTTP": "80", "_PORT": link,
			"_PORT_80_TCP": link, "_PORT_80_TCP_PROTO": "tcp", "_PORT_80_TCP_PORT": "80", "_PORT_80_TCP_ADDR": "10.96.0.1"} {
			if _, ok := knativeEnvironment[service+name]; !ok {
				variables[service+name] = text
			}
		}
	}
	return variables
}

func TestVariablesOfRealContainersCauseNoWarnings(t *testing.T) {
	warnings := warningsOf(t, nil, surroundings())
	if len(warnings) != 1 || !strings.Contains(warnings[0], "Kubernetes says a Service is") {
		t.Errorf("got %q", warnings)
	}
}

func TestCorrectSettingNamesAreNotReportedAsMisspelt(t *testing.T) {
	for _, s := range knownSettings() {
		if s.value.about().hint == "TEXT" {
			if got := warningsOf(t, nil, map[string]string{s.name: "x"}); got != nil {
				t.Errorf("%s: %q", s.name, got)
			}
		}
	}
}

func TestKnativeIsDetectedByItsVariables(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       bool
	}{
		{"SERVING_LOGGING_CONFIG", "", true}, {"SERVING_NAMESPACE", "default", true}, {"SERVING_REVISION", "", true},
		{"SERVING_LOGGING_LEVEL", "debug", false}, {"SERVING_POD", "hello-x", false}, {"USER_PORT", "81", false}, {"CONTAINER_CONCURRENCY", "1", false},
		{"SERVING_SERVICE_HOST", "10.96.0.1", false}, {"SERVING_PORT", "tcp://10.96.0.1:80", false},
	} {
		if cfg := mustLoad(t, nil, map[string]string{c.name: c.text}); cfg.Knative != c.want {
			t.Errorf("%s=%q: %t", c.name, c.text, cfg.Knative)
		}
	}
}

func TestEditDistanceCountsInsertionsDeletionsReplacementsAndSwaps(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "ab", 2}, {"abc", "abc", 0}, {"abc", "abd", 1}, {"abc", "acb", 1}, {"abc", "bca", 2}, {"ab", "ba", 1},
		{"abcd", "acbd", 1}, {"port", "prot", 1}, {"kitten", "sitting", 3}} {
		if got, back := distance(c.a, c.b), distance(c.b, c.a); got != c.want || back != c.want {
			t.Errorf("%q and %q: %d and %d, want %d", c.a, c.b, got, back, c.want)
		}
	}
}

func TestAMisspeltFlagOrCommandIsAnErrorThatNamesTheRightOne(t *testing.T) {
	for _, c := range []struct{ arg, want string }{
		{"--user-prot=81", `"--user-prot": unknown flag; did you mean --user-port?`},
		{"--prot", `"--prot": unknown flag; did you mean --port?`},
		{"--tls-prt", `"--tls-prt": unknown flag; did you mean --tls-port?`},
		{"--chekc", `"--chekc": unknown flag; did you mean --check?`},
		{"--drain", `"--drain": unknown flag; did you mean queue drain?`},
		{"-version", `argument "-version": did you mean --version?`},
		{"drian", `argument "drian": did you mean queue drain?`},
		{"prboe", `argument "prboe": did you mean queue probe?`},
		{"--probe", `"--probe": unknown flag; did you mean queue probe?`},
		{"check", `argument "check": did you mean --check?`},
		{"--xyz", `"--xyz": unknown flag; want a flag that "queue --help" lists`},
		{"serve", `argument "serve": ` + wantsCommand + `; to start an application, put its command after "--": queue -- serve`},
	} {
		if problems := problemsOf(t, []string{c.arg}, nil); len(problems) != 1 || problems[0] != c.want {
			t.Errorf("got %q, want %q", problems, c.want)
		}
	}
}

// Each Service of a namespace adds seven variables to each pod.
func BenchmarkVariables(b *testing.B) {
	variables := surroundings()
	for i := range 1000 {
		for _, end := range []string{"_SERVICE_HOST", "_SERVICE_PORT", "_PORT", "_PORT_80_TCP", "_PORT_80_TCP_PROTO", "_PORT_80_TCP_PORT", "_PORT_80_TCP_ADDR"} {
			variables[fmt.Sprintf("SERVICE_%d%s", i, end)] = "tcp://10.96.0.1:80"
		}
	}
	for name, variables := range map[string]map[string]string{"usual": surroundings(), "1000 Services": variables} {
		l := loader{Config: new(Config), inputs: inputs{lookup: func(name string) (string, bool) { text, ok := variables[name]; return text, ok }}}
		l.settings = table(l.Config)
		names := slices.Sorted(maps.Keys(variables))
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				l.readNames(names)
			}
		})
	}
}

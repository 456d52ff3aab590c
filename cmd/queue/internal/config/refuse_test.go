package config

import (
	"slices"
	"strings"
	"testing"
)

// refused maps the hint of a kind to texts that are invalid for it. refusedBy maps the
// name of a setting to texts that are invalid for this setting only.
var (
	refused = map[string][]string{
		"":            {"yes", "2", "on", " true"},
		"PORT":        {"x", "-1", "-0", "+1", "65536", "0x50", "00", "1_000", "080", "8080 ", "8080.0", "1e3", "99999999999999999999", "\u0663", "off"},
		"N":           {"x", "-1", "+1", "0x10", "1_000", "010", "1.5", "99999999999999999999", "unlimited"},
		"SECONDS":     {"x", "-1", "+1", "0x10", "1_000", "010", "1.", ".5", "1.5.5", "1.-5", "10s", "1e3", "NaN", "Inf"},
		"DURATION":    {"x", "-1", "-1s", "+1s", "0x10", "1_000", "010", ".5s", "s", "1 s", "5 minutes", "9999999999h"},
		"SIZE":        {"x", "-1", "16M", "16MiB", "16 Mi", "1.5Mi", "Mi", "016Mi", "0x10Mi", "16mi", "9999999999Gi"},
		"RATE":        {"x", "-0.1", "1.1", "+0.1", "0x1p-2", "NaN", "inf", ".5", "0_1", "10%", "1e9999"},
		"NAME":        {"x", "none ", "-"},
		"LEVEL":       {"loud", "1", "trace"},
		"ADDRESS":     {"x", "localhost", "127.0.0.1:80", "[::1]", "300.0.0.1", "127.1", ":"},
		"CIDRS":       {"x", "10.0.0.0/33", "10.0.0.0/", "10.0/8", "10.0.0.0/8,", "fe80::1%eth0", "fe80::%eth0/64", "10.0.0.1:80", "localhost", "10.0.0.1 10.0.0.2"},
		"ENDPOINT":    {"x", "ftp://host", "http://", "host:0", "host:x", ":9411", "http://h ost", "/host:1", "host/a:1", "host:1?x", "host:1/%"},
		"URL":         {"x", "localhost:8000", "http://", "http://localhost:x/", "http://localhost/a b", "http://localhost/#a", "ftp://localhost/"},
		"HOST":        {"http://a", "a:80", "[::1]", "a b", "a..b", ".a", "-a", "a/b"},
		"FILE":        {"ca.crt", "./ca.crt"},
		"DIRECTORY":   {"certs", "./certs"},
		"SOCKET":      {"drain.sock", "./a", "@", "/a\x00b", "/" + strings.Repeat("a", 107)},
		"PATHS":       {"x", "/a,", ",", "/a,b", "/a?b", "/a b", "/a,/a", "/\u00e9"},
		"NAMES":       {"a b"},
		"PART":        {"tenant", "header:", "header:a b", "path", "path:0", "path:x", "peers", "peer:1"},
		"FIELD":       {"grpc-timeout", "peer", "path:1", "header", "header:"},
		"JSON":        {"x", "1", `"a"`, "{", "{}x", "{]"},
		"TEXT":        nil,
		"TEMPLATE":    nil, // validated by checkTemplate
		"PATH":        {"a\x00b"},
		"HEADERS":     nil, // ignored, not rejected
		"ATTRIBUTES":  nil, // ignored, not rejected
		"RULE":        {"x", "6", "class=6,after=1s"},
		"SAMPLER":     nil, // ignored, not rejected
		"PROPAGATORS": nil, // ignored, not rejected
		"MS":          nil, // ignored, not rejected
	}
	objects   = []string{"[]", "null"}
	refusedBy = map[string][]string{
		"QUEUE_SERVING_PORT": {"0"}, "USER_PORT": {"0"}, "THREADS": {"1025"}, "HEAD_MEMORY": {"0", "65535", "63Ki"}, "HTTP2_MAX_HEADER_LIST": {"0", "4095"},
		"CONTAINER_CONCURRENCY": {"1048577", "automatic", "auto:", "auto:5", "auto:0-3", "auto:5-4", "auto:1-1048577"},
		"QUEUE_EVICT":           {"class>=8,after=1s", "after=1s", "class>=6", "class>=6,after=1"},
		"QUEUE_RETRY_AFTER":     {"2", "0", "yes"}, "QUEUE_CAPACITY": {"16777217"},
		"QUEUE_REFUSAL_STATUS": {"500", "0"}, "ENGINE_METRICS": {"127.0.0.1:8000", "https://127.0.0.1/metrics", "http://10.0.0.1:8000/metrics", "http://engine/metrics", "http://u:p@localhost/", "http://localhost:0/"}, "ENGINE_METRICS_PERIOD": {"9ms", "11s", "0"}, "ENGINE_MAX_KV": {"1.1", "-1"}, "QUEUE_COST_BY": {"peer", "path:1", "length:4", "header:"}, "QUEUE_COST_LIMIT": {"16777216", "-1"}, "UNLIMITED_CAPACITY": {"0", "1025"}, "UNLIMITED_PATHS": {"metrics", "/a?b", "/a*", "/a%2e", "*"},
		"REVISION_TIMEOUT_SECONDS": {"0", "1.5"}, "WAIT_KEEPALIVE": {"99ms", "1ns"}, "WAIT_PAGE": {"99ms"}, "REVISION_RESPONSE_START_TIMEOUT_SECONDS": {"1.5"}, "REVISION_IDLE_TIMEOUT_SECONDS": {"1.5"},
		"UPSTREAM_PROTOCOL": {"http2", "h2"}, "UPSTREAM_TLS": {"yes", "false", "on"}, "READINESS_FRESHNESS": {"0", "0s"},
		"SERVING_READINESS_PROBE": {"no", "None", "{}", "[{}]", "[", "[1]", "[none]", "[[]]", `{"periodSeconds":1}`, `{"httpGet":null}`,
			`{"exec":{"command":["true"]}}`, `[{"tcpSocket":{"port":1}},{"exec":{}}]`, "[]"},
		"CONTAINER_NAMES":  {"A", "a_b", "-a", "a-", "a,,b", "a,a", strings.Repeat("a", 64)},
		"KUBE_APP_PROBERS": objects, "OBSERVABILITY_CONFIG": objects,
		"SERVING_REQUEST_METRICS_BACKEND": {"otlp"}, "TRACING_CONFIG_BACKEND": {"jaeger"},
		"OTEL_EXPORTER_OTLP_PROTOCOL": {"http/json"}, "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": {"http/json"}, "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL": {"http/json"},
		"OTEL_EXPORTER_OTLP_ENDPOINT": {"unix:///a", "[fe80::1%eth0]:80"}, "OTEL_EXPORTER_OTLP_COMPRESSION": {"zstd"}, "OTEL_TRACES_SAMPLER_ARG": {"x", "-1", "NaN"}, "OTEL_EXPORTER_OTLP_INSECURE": {"1"},
		"SERVING_LOGGING_CONFIG": append(objects, `{"level":"loud"}`, `{"level":1}`, `{"encoding":"xml"}`, `{"encoderConfig":{"timeEncoder":"iso"}}`,
			`{"encoderConfig":{"timeEncoder":{}}}`, `{"encoderConfig":{"levelEncoder":"shout"}}`, `{"outputPaths":"stdout"}`),
		"QUEUE_PROXY_TLS_MIN_VERSION": {"1.1", "1", "TLS1.2", "0"}, "QUEUE_PROXY_TLS_MAX_VERSION": {"1.1", "1.4"},
		"QUEUE_PROXY_TLS_CIPHER_SUITES":     {"x", "TLS_RSA_WITH_RC4_128_SHA", "TLS_AES_128_GCM_SHA256;TLS_AES_256_GCM_SHA384"},
		"QUEUE_PROXY_TLS_CURVE_PREFERENCES": {"x", "P-224", "x25519"}, "TLS_CLIENT_SANS": {"a,", "a,a", "\u00e9"},
	}
)

func TestAnInvalidValueIsAProblemThatNamesSettingValueAndExpectedValues(t *testing.T) {
	for _, s := range knownSettings() {
		hint := s.value.about().hint
		if strings.Contains(hint, "|") {
			hint = "NAME"
		}
		texts, ok := refused[hint]
		if !ok {
			t.Errorf("%s is not in this test: say what settings of its kind refuse", hint)
		}
		texts = slices.Concat(texts, refusedBy[s.name])
		variables := map[string]string{}
		if strings.HasPrefix(s.name, "OTEL_") {
			variables = exporting
			// Load trims OTEL_ variables, so a text with space around it may be valid.
			texts = slices.DeleteFunc(texts, func(text string) bool { return strings.TrimSpace(text) != text })
		}
		for _, text := range texts {
			for source, load := range map[string]func() []string{
				"environment": func() []string { return problemsOf(t, nil, with(variables, s.name, text)) },
				"flag":        func() []string { return problemsOf(t, []string{"--" + s.flag + "=" + text}, variables) },
			} {
				problems := load()
				if len(problems) != 1 {
					t.Errorf("%s from the %s: got %d problems: %q", s.name, source, len(problems), problems)
				}
				for _, part := range []string{s.name + "=" + quoteShort(text), ": want "} {
					if !strings.Contains(problems[0], part) {
						t.Errorf("%s=%q from the %s: %q does not say %q", s.name, text, source, problems[0], part)
					}
				}
				if (source == "flag") != strings.Contains(problems[0], "(--"+s.flag+")") && text != "[]" {
					t.Errorf("%s=%q from the %s: got %q", s.name, text, source, problems[0])
				}
			}
		}
	}
}

func TestProblemsOfSettingsAndFlagsSayWhatIsWanted(t *testing.T) {
	for _, c := range []struct {
		args      []string
		env, text string
		want      string
	}{
		{nil, "USER_PORT", "auto", `USER_PORT=auto: want a port number, or an application to start (queue --user-port auto -- COMMAND)`},
		{nil, "IDLE_STOP", "5m", `IDLE_STOP=5m0s: want an application to start (queue --idle-stop 5m0s -- COMMAND), or IDLE_HOOK and WAKE_HOOK`},
		{[]string{"--idle-stop", "1m", "--user-port", "auto", "--", "app"}, "", "",
			`IDLE_STOP=1m0s: want a port number in USER_PORT, because the application may listen on another port after each start, or IDLE_FREEZE=true`},
		{[]string{"--idle-freeze", "--", "app"}, "", "", `IDLE_FREEZE=true: want IDLE_STOP as well`},
		{[]string{"--idle-stop", "1m", "--idle-freeze"}, "", "", `IDLE_STOP=1m0s: want an application to start (queue --idle-stop 1m0s -- COMMAND), or IDLE_HOOK and WAKE_HOOK`},
		{[]string{"--idle-hook", "http://localhost/sleep", "--wake-hook", "http://localhost/wake"}, "", "", `IDLE_HOOK="http://localhost/sleep": want IDLE_STOP as well`},
		{[]string{"--idle-stop", "1m", "--idle-hook", "http://localhost/sleep"}, "", "", `IDLE_HOOK="http://localhost/sleep": want WAKE_HOOK as well`},
		{[]string{"--idle-stop", "1m", "--wake-hook", "http://localhost/wake"}, "", "", `WAKE_HOOK="http://localhost/wake": want IDLE_HOOK as well`},
		{nil, "IDLE_HOOK", "https://10.0.0.1/sleep", `IDLE_HOOK="https://10.0.0.1/sleep": want an http URL of this pod such as http://127.0.0.1:8000/sleep?level=1 (localhost or a loopback address)`},
		{[]string{"--idle-stop", "1ms", "--", "app"}, "", "", `IDLE_STOP="1ms" (--idle-stop): want a duration of 10ms or more such as 30s or 5m, or plain seconds, or 0 for off`},
		{nil, "USER_PORT", "x", `USER_PORT="x": want a port number from 1 to 65535, or auto`},
		{[]string{"--user-port", "-5"}, "", "", `USER_PORT="-5" (--user-port): want a port number from 1 to 65535, or auto`},
		{nil, "REVISION_TIMEOUT_SECONDS", "0", `REVISION_TIMEOUT_SECONDS="0": want whole seconds, 1 or more`},
		{nil, "SERVING_READINESS_PROBE", "{}", `SERVING_READINESS_PROBE="{}": want none, or a Kubernetes probe in JSON with httpGet, tcpSocket or grpc, or an array of such: ` +
			`SERVING_READINESS_PROBE: has no handler: exactly one of httpGet, tcpSocket, grpc is needed`},
		{nil, "SERVING_READINESS_PROBE", `[{"tcpSocket":{}},{"exec":{}}]`, `SERVING_READINESS_PROBE="[{\"tcpSocket\":{}},{\"exec\":{}}]": want none, or a Kubernetes probe in JSON with ` +
			`httpGet, tcpSocket or grpc, or an array of such: SERVING_READINESS_PROBE[1].exec: exec probes run inside the container, where the gate cannot run them: use httpGet, tcpSocket or grpc, or let the kubelet run it by a startupProbe or livenessProbe`},
		{nil, "SERVING_LOGGING_CONFIG", `{"level":"loud","encoding":"xml"}`, `SERVING_LOGGING_CONFIG="{\"level\":\"loud\",\"encoding\":\"xml\"}": want a zap configuration in JSON: ` +
			`level "loud" is not one of debug, info, warn, error, dpanic, panic, fatal; encoding "xml" is not one of json, console`},
		{nil, "SERVING_LOGGING_CONFIG", `{"encoderConfig":{"timeKey":1}}`, `SERVING_LOGGING_CONFIG="{\"encoderConfig\":{\"timeKey\":1}}": want a zap configuration in JSON: ` +
			`encoderConfig.timeKey cannot be number`},
		{nil, "UNCOUNTED_PATHS", "/a,b", `UNCOUNTED_PATHS="/a,b": want paths that begin with a slash and have no query, separated by commas: "b" is not`},
		{nil, "CLIENT_HALF_CLOSE", "open", `CLIENT_HALF_CLOSE="open": want close, answer or gone`},
		{nil, "KUBE_APP_PROBERS", "{", `KUBE_APP_PROBERS="{": want a JSON object from paths such as /app-health/web/readyz to probes: KUBE_APP_PROBERS: is not valid JSON`},
		{[]string{"--user-port"}, "", "", `--user-port (USER_PORT): has no value; want a port number from 1 to 65535, or auto`},
		{[]string{"--user-port", "--check"}, "", "", `--user-port (USER_PORT): has no value; want a port number from 1 to 65535, or auto`},
		{[]string{"--nope", "5"}, "", "", `"--nope": unknown flag; want a flag that "queue --help" lists`},
		{[]string{"--container-concurrency=5"}, "", "", `"--container-concurrency": unknown flag; want --concurrency`},
		{[]string{"-user-port", "--check"}, "", "", `argument "-user-port": want --user-port, or the setting in the environment`},
		{[]string{"USER_PORT=5"}, "", "", `argument "USER_PORT=5": want --user-port, or the setting in the environment`},
		{[]string{"--check", "drain"}, "", "", `argument "drain": ` + wantsCommand},
		{[]string{"node", "app.js"}, "", "", `argument "node": ` + wantsCommand + `; to start an application, put its command after "--": queue -- node app.js`},
		{[]string{"--port", "80", "./run.sh", "--nope", "it's"}, "", "", `argument "./run.sh": ` + wantsCommand + `; to start an application, put its command after "--": queue --port 80 -- ./run.sh --nope 'it'\''s'`},
		{[]string{"prob"}, "", "", `argument "prob": did you mean queue probe?`},
		{[]string{"--concurrency-hard", "0"}, "", "", `argument "0": ` + wantsCommand},
		{[]string{"--"}, "", "", `argument "--": want an application's command after it`},
		{[]string{"--concurrency-hard", "false"}, "", "", `argument "false": ` + wantsCommand},
		{[]string{"drain", "--user-port=5"}, "", "", `--user-port: not a flag of "queue drain"; want --drain-socket`},
		{[]string{"drain", "--drain-sokcet=@a"}, "", "", `"--drain-sokcet": unknown flag; did you mean --drain-socket?`},
		{[]string{"probe", "--tls-port=1"}, "", "", `--tls-port: not a flag of "queue probe"; want --port, --listen-address, --as, --timeout or --probe-period`},
		{[]string{"probe", "--timout=1"}, "", "", `"--timout": unknown flag; did you mean --timeout?`},
		{[]string{"probe", "--as=proxy"}, "", "", `--as="proxy": want kubelet, activator or ingress`},
		{[]string{"probe", "--as"}, "", "", `--as: has no value; want kubelet, activator or ingress`},
		{[]string{"-probe-period", "x"}, "", "", `--probe-period="x": want whole seconds, 0 or more`},
		{[]string{"help", "prob"}, "", "", `help "prob": want one of probe, drain, upgrade, version, help`},
		{[]string{"--side-ports=65531"}, "", "", `SIDE_PORTS="65531" (--side-ports): want off, or a port number from 1 to 65530`},
		{[]string{"drain", "--check"}, "", "", `--check: not a flag of "queue drain"; want --drain-socket`},
	} {
		problems := problemsOf(t, c.args, map[string]string{c.env: c.text})
		if len(problems) != 1 || problems[0] != c.want {
			t.Errorf("%q %s=%q\ngot  %s\nwant %s", c.args, c.env, c.text, strings.Join(problems, "\n     "), c.want)
		}
	}
}

const wantsCommand = `want flags as "queue --help" lists them, or a command (probe, drain, upgrade, version, help) as the first argument`

func TestAllProblemsAreReportedTogetherInTheOrderOfTheTable(t *testing.T) {
	problems := problemsOf(t, []string{"--nope", "stray", "--admin-port=-1", "extra", "--whatever"}, map[string]string{
		"USER_PORT": "x", "CONTAINER_CONCURRENCY": "-1", "REVISION_TIMEOUT_SECONDS": "0", "SERVING_READINESS_PROBE": "{}",
		"OBSERVABILITY_CONFIG":        `{"tracing":{"protocol":"smoke","samplingRate":2}}`,
		"SERVING_LOGGING_LEVEL":       "loud",
		"QUEUE_PROXY_TLS_MIN_VERSION": "1.3", "QUEUE_PROXY_TLS_MAX_VERSION": "1.2",
		"QUEUE_SERVING_PORT": "9090",
	})
	var names []string
	for _, problem := range problems {
		end := strings.IndexAny(problem, "=:")
		if problem[0] == '"' {
			end = strings.Index(problem, ": ")
		}
		names = append(names, problem[:end])
	}
	want := []string{`"--nope"`, `argument "extra"`, "USER_PORT", "CONTAINER_CONCURRENCY", "REVISION_TIMEOUT_SECONDS", "SERVING_READINESS_PROBE", "ADMIN_PORT",
		"AUTOSCALER_METRICS_PORT", "OBSERVABILITY_CONFIG tracing.protocol", "OBSERVABILITY_CONFIG tracing.samplingRate", "SERVING_LOGGING_LEVEL", "QUEUE_PROXY_TLS_MAX_VERSION"}
	if !slices.Equal(names, want) {
		t.Errorf("got  %q\nwant %q\n%s", names, want, strings.Join(problems, "\n"))
	}
}

func TestLongValuesAreTruncatedInProblems(t *testing.T) {
	long := strings.Repeat("x", 10_000)
	for _, variables := range []map[string]string{{"USER_PORT": long}, {"SERVING_LOGGING_CONFIG": `{"level":"loud","x":"` + long + `"}`},
		{"OBSERVABILITY_CONFIG": `{"tracing":"` + long + `"}`}} {
		if problem := problemsOf(t, nil, variables)[0]; len(problem) > 500 || !strings.Contains(problem, "...") {
			t.Errorf("got %d bytes: %.600s", len(problem), problem)
		}
	}
}

func TestContradictoryValuesAreRejected(t *testing.T) {
	for _, c := range []struct{ variables []string }{
		{[]string{"SERVING_READINESS_PROBE", "[]"}},
		{[]string{"TRACING_CONFIG_ZIPKIN_ENDPOINT", "", "TRACING_CONFIG_BACKEND", "zipkin"}},
		{[]string{"TRACING_CONFIG_ZIPKIN_ENDPOINT", "zipkin:9411", "TRACING_CONFIG_BACKEND", "zipkin"}},
		{[]string{"TRACING_CONFIG_ZIPKIN_ENDPOINT", "", "TRACING_CONFIG_BACKEND", "grpc"}},
		{[]string{"METRICS_COLLECTOR_ADDRESS", "", "SERVING_REQUEST_METRICS_BACKEND", "grpc"}},
		{[]string{"QUEUE_PROXY_TLS_MAX_VERSION", "1.2", "QUEUE_PROXY_TLS_MIN_VERSION", "1.3"}},
		{[]string{"TLS_CLIENT_SANS", "a.example"}},
		{[]string{"QUEUE_EVICT", "class>=6,after=2s"}},
		{[]string{"QUEUE_COST_BY", "length"}},
		{[]string{"QUEUE_COST_LIMIT", "5"}},
		{[]string{"TLS_ONLY", "true", "QUEUE_SERVING_TLS_PORT", "0"}},
		{[]string{"UPSTREAM_TLS", "true"}},
	} {
		problems := problemsOf(t, nil, with(nil, c.variables...))
		if len(problems) != 1 || !strings.HasPrefix(problems[0], c.variables[0]+"=") {
			t.Errorf("%q: got %q", c.variables, problems)
		}
	}
}

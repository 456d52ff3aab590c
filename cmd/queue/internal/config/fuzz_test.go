package config

import (
	"reflect"
	"strings"
	"testing"
)

// FuzzLoad calls Load with arguments and variables, one per line. Each problem must be
// one line with the accepted values. WriteCheck must print an environment that loads to
// the same configuration.
func FuzzLoad(f *testing.F) {
	f.Add("--user-port=81\n--check", "CONTAINER_CONCURRENCY=5\nQUEUE_MAX_WAIT=1.5")
	f.Add("drain\n--drain-socket\n@x", "DRAIN_SOCKET=/a")
	f.Add("--concurrency\n-1\n--nope", "REVISION_TIMEOUT_SECONDS=99999999999999999999\nTUNNEL_MAX_SECONDS=0.0000000001")
	f.Add("", `OBSERVABILITY_CONFIG={"tracing":{"protocol":"grpc","endpoint":"a:1","samplingRate":1e-5},"requestMetrics":{"endpoint":":9095"},"x":null}`)
	f.Add("", `SERVING_READINESS_PROBE=[{"tcpSocket":{}}]`)
	f.Add("", `SERVING_LOGGING_CONFIG={"level":"WARN","encoderConfig":{"timeEncoder":{"layout":"x"}}}`)
	f.Add("--request-log-template={{range .}}{{break}}{{end}}", "UNCOUNTED_PATHS=/a, /b\nCONTAINER_NAMES=a,b\nUSER_PORT=8112")
	f.Add("--readiness-probe\n{", "LISTEN_ADDRESS=::ffff:127.0.0.1\nAPP_PROBE_PORT=8023\nSERVING_POD=\"\t")
	f.Add("--otlp-traces-endpoint=http://a/b", "TRACING_CONFIG_BACKEND=grpc\nOTEL_EXPORTER_OTLP_ENDPOINT=a:1\nOTEL_EXPORTER_OTLP_HEADERS=a=%20b,c\nOTEL_EXPORTER_OTLP_INSECURE=true\n"+
		"OTEL_RESOURCE_ATTRIBUTES=k=%zz,l=a%2Cb,m\nOTEL_TRACES_SAMPLER_ARG=0.5\nOTEL_PROPAGATORS=b3,x\nOTEL_EXPORTER_OTLP_TIMEOUT=0")
	f.Fuzz(func(t *testing.T, args, variables string) {
		var argv []string
		if args != "" {
			argv = strings.Split(args, "\n")
		}
		env := map[string]string{"SERVING_POD": "pod"}
		for line := range strings.SplitSeq(variables, "\n") {
			name, text, _ := strings.Cut(line, "=")
			env[name] = text
		}
		cfg, command, _, err := load(argv, env)
		if err != nil {
			for problem := range strings.SplitSeq(err.Error(), "\n") {
				if !strings.Contains(problem, "want ") && !strings.Contains(problem, "did you mean ") {
					t.Errorf("problem %q does not say what is wanted", problem)
				}
			}
			return
		}
		if command != CommandRun && command != CommandCheck {
			return
		}
		again, _, _, err := load(nil, readCheck(t, checkOutput(t, cfg)))
		if err != nil || !reflect.DeepEqual(withoutSecrets(again), withoutSecrets(cfg)) {
			t.Errorf("%v\ngot  %+v\nwant %+v", err, again, cfg)
		}
	})
}

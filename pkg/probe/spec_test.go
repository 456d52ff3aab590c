package probe

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/queuegate/queuegate/pkg/probe/check"
)

func TestSpecsAreParsedInKubernetesFormat(t *testing.T) {
	full := Spec{
		Container: "user-container", Host: "127.0.0.1", Port: 8080, Checker: &check.HTTP{Address: "127.0.0.1:8080", Path: "/"},
		Timeout: time.Second, SuccessThreshold: 1, FailureThreshold: 3,
	}
	with := func(change func(*Spec)) Spec {
		s := full
		change(&s)
		return s
	}
	tcp := with(func(s *Spec) { s.Checker = &check.TCP{Address: "127.0.0.1:8080"} })
	cases := map[string]struct {
		json    string
		options SpecOptions
		want    []Spec
	}{
		"nothing":                {"", SpecOptions{UserPort: 8080}, []Spec{tcp}},
		"blanks":                 {" \n", SpecOptions{UserPort: 8080}, []Spec{tcp}},
		"null":                   {"null", SpecOptions{UserPort: 8080}, []Spec{tcp}},
		"an array of null":       {"[null]", SpecOptions{UserPort: 8080}, []Spec{tcp}},
		"an array of nulls":      {"[null, null]", SpecOptions{UserPort: 8080, MultiContainer: true}, []Spec{tcp}},
		"nothing, with a name":   {"", SpecOptions{UserPort: 8080, ContainerNames: []string{"web"}}, []Spec{with(func(s *Spec) { *s = tcp; s.Container = "web" })}},
		"that nothing is probed": {" none ", SpecOptions{UserPort: 8080}, nil},
		"a null and a probe": {
			`[null,{"tcpSocket":{}}]`, SpecOptions{UserPort: 8080, ContainerNames: []string{"a", "b"}},
			[]Spec{with(func(s *Spec) { *s = tcp; s.Container = "b" })},
		},
		"a null and a probe, without names": {
			`[null,{"tcpSocket":{}}]`, SpecOptions{UserPort: 8080},
			[]Spec{with(func(s *Spec) { *s = tcp; s.Container = "container-1:8080" })},
		},
		"what Knative's controller sends by default": {
			`{"tcpSocket":{"port":8080,"host":"127.0.0.1"},"successThreshold":1}`, SpecOptions{UserPort: 9}, []Spec{tcp},
		},
		"an empty handler takes all defaults": {`{"httpGet":{}}`, SpecOptions{UserPort: 8080}, []Spec{full}},
		"a numeric string is a port":          {`{"tcpSocket":{"port":"8080"}}`, SpecOptions{}, []Spec{tcp}},
		"port 0 and an empty port are absent": {`[{"tcpSocket":{"port":0}},{"tcpSocket":{"port":""}}]`, SpecOptions{UserPort: 8080, ContainerNames: []string{"user-container", "b"}},
			[]Spec{tcp, with(func(s *Spec) { *s = tcp; s.Container, s.Index = "b", 1 })}},
		"all fields of httpGet": {
			`{"httpGet":{"path":"/x?y","port":81,"host":"::1","scheme":"HTTPS","httpHeaders":[{"name":"Host","value":"h"},{"name":"A","value":""}]},
			  "initialDelaySeconds":5,"periodSeconds":2,"timeoutSeconds":3,"successThreshold":4,"failureThreshold":5,"terminationGracePeriodSeconds":9,"x":{}}`,
			SpecOptions{UserPort: 8080},
			[]Spec{{Container: "user-container", Host: "::1", Port: 81,
				Checker: &check.HTTP{Address: "[::1]:81", TLS: true, Path: "/x?y", Headers: []check.Header{{Name: "Host", Value: "h"}, {Name: "A"}}},
				Period:  2 * time.Second, Timeout: 3 * time.Second, SuccessThreshold: 4, FailureThreshold: 5}},
		},
		"grpc": {
			`{"grpc":{"port":81,"service":"s"},"periodSeconds":null}`, SpecOptions{},
			[]Spec{with(func(s *Spec) { s.Port, s.Checker = 81, &check.GRPC{Address: "127.0.0.1:81", Service: "s"} })},
		},
		"grpc with a null service": {
			`{"grpc":{"port":8080,"service":null}}`, SpecOptions{},
			[]Spec{with(func(s *Spec) { s.Checker = &check.GRPC{Address: "127.0.0.1:8080"} })},
		},
		"an array of one without the flag": {`[{"httpGet":{}}]`, SpecOptions{UserPort: 8080}, []Spec{full}},
		"an empty array with the flag":     {`[]`, SpecOptions{MultiContainer: true}, []Spec{}},
		"an array without names": {
			`[{"httpGet":{}},{"tcpSocket":{"port":"81"}}]`, SpecOptions{UserPort: 8080, ContainerNames: []string{"only one"}},
			[]Spec{
				with(func(s *Spec) { s.Container = "container-0:8080" }),
				with(func(s *Spec) {
					s.Container, s.Index, s.Port, s.Checker = "container-1:81", 1, 81, &check.TCP{Address: "127.0.0.1:81"}
				}),
			},
		},
		"timeouts have no upper bound": {`{"httpGet":{},"timeoutSeconds":2147483647}`, SpecOptions{UserPort: 8080},
			[]Spec{with(func(s *Spec) { s.Timeout = 2147483647 * time.Second })}},
		"a name that is not safe is made so": {`{"httpGet":{}}`, SpecOptions{UserPort: 8080, ContainerNames: []string{"a\r\nb: c"}},
			[]Spec{with(func(s *Spec) { s.Container = "a--b--c" })}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := ParseSpec(c.json, c.options)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
		})
	}
}

func TestASpecDescribesItsCheck(t *testing.T) {
	for text, want := range map[string]string{
		`{"httpGet":{"port":81,"host":"::1"}}`:         "http [::1]:81",
		`{"tcpSocket":{"port":81,"host":"localhost"}}`: "tcp localhost:81",
		`{"grpc":{"port":81}}`:                         "grpc 127.0.0.1:81",
	} {
		specs, err := ParseSpec(text, SpecOptions{})
		if err != nil || specs[0].String() != want {
			t.Errorf("%s: %v, %v, want %q", text, specs, err, want)
		}
	}
}

func TestInvalidSpecsAreRejectedWithTheFieldNamed(t *testing.T) {
	cases := map[string]struct{ json, want string }{
		"no JSON":                  {`{`, "SERVING_READINESS_PROBE: is not valid JSON"},
		"no object":                {`"x"`, "is a string: an object is needed"},
		"trailing bytes":           {`{"httpGet":{}} x`, "is not valid JSON"},
		"no handler":               {`{}`, "has no handler"},
		"a null handler":           {`{"httpGet":null}`, "has no handler"},
		"two handlers":             {`{"httpGet":{},"grpc":{}}`, "more than one handler (httpGet, grpc)"},
		"exec":                     {`{"exec":{"command":["x"]}}`, "SERVING_READINESS_PROBE.exec: exec probes run inside the container"},
		"exec and another handler": {`{"exec":{},"httpGet":{}}`, "SERVING_READINESS_PROBE.exec"},
		"handler type":             {`{"httpGet":7}`, "SERVING_READINESS_PROBE.httpGet: is a number: an object is needed"},
		"path type":                {`{"httpGet":{"path":7}}`, "SERVING_READINESS_PROBE.httpGet.path: is a number: a string is needed"},
		"named port":               {`{"httpGet":{"port":"http"}}`, `SERVING_READINESS_PROBE.httpGet.port: is "http": a named port`},
		"hexadecimal port":         {`{"httpGet":{"port":"0x50"}}`, "httpGet.port"},
		"port too large":           {`{"tcpSocket":{"port":70000}}`, `tcpSocket.port: is "70000": a port from 1 to 65535`},
		"port far too large":       {`{"tcpSocket":{"port":"70000000000"}}`, "a port from 1 to 65535"},
		"negative port":            {`{"tcpSocket":{"port":-1}}`, "tcpSocket.port"},
		"fractional port":          {`{"tcpSocket":{"port":1.5}}`, "tcpSocket.port"},
		"port type":                {`{"tcpSocket":{"port":true}}`, "tcpSocket.port"},
		"negative period":          {`{"httpGet":{},"periodSeconds":-1}`, "SERVING_READINESS_PROBE.periodSeconds: is -1: it cannot be negative"},
		"period as a string":       {`{"httpGet":{},"periodSeconds":"1"}`, "periodSeconds: is \"\\\"1\\\"\": a whole number is needed"},
		"fractional timeout":       {`{"httpGet":{},"timeoutSeconds":0.5}`, "timeoutSeconds"},
		"huge threshold":           {`{"httpGet":{},"failureThreshold":3000000000}`, "failureThreshold: is 3000000000: at most 2147483647"},
		"delay type":               {`{"httpGet":{},"initialDelaySeconds":[]}`, "initialDelaySeconds"},
		"scheme":                   {`{"httpGet":{"scheme":"ftp"}}`, `httpGet.scheme: is "ftp"`},
		"host":                     {`{"httpGet":{"host":"a/b"}}`, "httpGet.host: is not a host name"},
		"half a bracket":           {`{"httpGet":{"host":"]"}}`, "httpGet.host: is not a host name"},
		"empty brackets":           {`{"httpGet":{"host":"[]"}}`, "httpGet.host: is not a host name"},
		"host with a port":         {`{"httpGet":{"host":"a:80"}}`, "httpGet.host: is not a host name"},
		"headers type":             {`{"httpGet":{"httpHeaders":{}}}`, "httpGet.httpHeaders: is an object: an array is needed"},
		"header name":              {`{"httpGet":{"httpHeaders":[{"name":"a b"}]}}`, "httpGet.httpHeaders[0].name"},
		"header value":             {`{"httpGet":{"httpHeaders":[{"name":"a","value":"x\r\ny"}]}}`, "httpGet.httpHeaders[0].value"},
		"header element":           {`{"httpGet":{"httpHeaders":["x"]}}`, "httpGet.httpHeaders[0]: is a string"},
		"second of an array":       {`[{"httpGet":{}},{"exec":{}}]`, "SERVING_READINESS_PROBE[1].exec"},
		"none in an array":         {`["none"]`, "SERVING_READINESS_PROBE[0]: is a string"},
		"another word":             {`never`, "is not valid JSON"},
		"empty array":              {`[]`, "ENABLE_MULTI_CONTAINER_PROBES"},
		"several at once":          {`{"tcpSocket":{"port":"x"},"periodSeconds":-1,"timeoutSeconds":-2}`, "SERVING_READINESS_PROBE.timeoutSeconds"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			specs, err := ParseSpec(c.json, SpecOptions{UserPort: 8080})
			if err == nil {
				t.Fatalf("accepted as %+v", specs)
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("error is %q, want it to hold %q", err, c.want)
			}
		})
	}
}

func TestAllProblemsOfASpecAreReportedTogether(t *testing.T) {
	_, err := ParseSpec(`[{"periodSeconds":-1,"tcpSocket":{"port":"x"}},{"exec":{}}]`, SpecOptions{})
	for _, want := range []string{"[0].periodSeconds", "[0].tcpSocket.port", "[1].exec"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not name %s", err, want)
		}
	}
}

func FuzzParseSpec(f *testing.F) {
	for _, seed := range []string{
		"", "none", "{}", "[]", "null", "[null]", `{"httpGet":{"path":"/","port":"8080","httpHeaders":[{"name":"a","value":"b"}]},"periodSeconds":1}`,
		`[{"tcpSocket":{"port":1}},{"grpc":{"port":2,"service":"s"}}]`, `{"exec":{}}`, `{"httpGet":{"port":"x"}}`, `{"httpGet":{"host":"[::1]"}}`, `{"httpGet":{"host":"]"}}`,
	} {
		f.Add(seed, true)
		f.Add(seed, false)
	}
	f.Fuzz(func(t *testing.T, text string, multi bool) {
		specs, err := ParseSpec(text, SpecOptions{UserPort: 8080, MultiContainer: multi, ContainerNames: []string{text}})
		if err != nil {
			if !strings.Contains(err.Error(), specSetting) || specs != nil {
				t.Fatalf("error %q, specs %v", err, specs)
			}
			return
		}
		for _, s := range specs {
			switch {
			case s.Checker == nil, s.Port < 1 || s.Port > 65535,
				s.Timeout < minTimeout, s.Period < 0, s.SuccessThreshold < 1, s.FailureThreshold < 1,
				!check.ValidValue(s.Container), s.Host == "":
				t.Fatalf("accepted %q as %+v", text, s)
			}
		}
	})
}

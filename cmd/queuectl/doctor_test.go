package main

import (
	"os"
	"strings"
	"testing"
)

func TestDoctorReportsProblemsAndSetsTheExitCode(t *testing.T) {
	_, injected, _ := ctl(t, podText, "inject", "-f", "-", "--image", "queuegate:1")
	for _, c := range []struct {
		text, flags string
		code        int
		output      string
	}{
		{podText, "", 1, "pod/web: error: has no gate"},
		{injected, "", 0, "no problems found"},
		{strings.Replace(injected, "Seconds: 330", "Seconds: 100", 1), "", 0, "pod/web: warning: terminationGracePeriodSeconds"},
		{strings.Replace(injected, "Seconds: 330", "Seconds: 100", 1), "--strict", 1, "pod/web: warning: terminationGracePeriodSeconds"},
		{"kind: ConfigMap\n", "", 1, "found no object with pods"},
		{"a: [", "", 1, "stdin: yaml"},
	} {
		code, out, stderr := ctl(t, c.text, append([]string{"doctor", "-f", "-"}, strings.Fields(c.flags)...)...)
		if code != c.code || !strings.Contains(out+stderr, c.output) {
			t.Errorf("code %d, %q, %q; want %d, %q", code, out, stderr, c.code, c.output)
		}
	}
	if code, _, _ := ctl(t, "", "doctor"); code != exitUsage {
		t.Error(code)
	}
	if code, _, stderr := ctl(t, "", "doctor", "web"); code != exitUsage || !strings.Contains(stderr, "KIND/NAME") {
		t.Error(code, stderr)
	}
}

func TestDoctorChecksAClusterThroughKubectl(t *testing.T) {
	dir := t.TempDir()
	_, injected, _ := ctl(t, podText, "inject", "-f", "-", "--image", "queuegate:1")
	if err := os.WriteFile(dir+"/pod", []byte(injected), 0o644); err != nil {
		t.Fatal(err)
	}
	fakeKubectl(t, `case "$*" in
"--namespace=shop get pod/web -o json") cat `+dir+`/pod ;;
"--namespace=shop get networkpolicies -o json") echo "forbidden" >&2; exit 1 ;;
"--namespace=shop get services -o json") echo '{"kind":"List","items":[{"kind":"Service","metadata":{"name":"admin"},"spec":{"ports":[]}}]}' ;;
*) echo "no $*" >&2; exit 1 ;;
esac
`)
	if code, out, stderr := ctl(t, "", "doctor", "pod/web", "-n", "shop"); code != 0 || !strings.Contains(out, "ADMIN_PORT") || !strings.Contains(stderr, "NetworkPolicies are not checked") {
		t.Errorf("code %d, %q, %q", code, out, stderr)
	}
	if code, _, stderr := ctl(t, "", "doctor", "pod/other"); code != 1 || !strings.Contains(stderr, "no get pod/other") {
		t.Errorf("code %d, %q", code, stderr)
	}
}

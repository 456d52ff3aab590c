package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// WaitTimeout limits each wait. It is far above the time that a busy machine needs.
const WaitTimeout = 10 * time.Minute

// Kubectl runs kubectl, which must succeed, and returns its output.
func Kubectl(t *testing.T, arguments ...string) string {
	t.Helper()
	return KubectlWith(t, "", arguments...)
}

// KubectlWith is Kubectl with input on stdin.
func KubectlWith(t *testing.T, input string, arguments ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), WaitTimeout)
	defer cancel()
	command := exec.CommandContext(ctx, "kubectl", arguments...)
	var out, problems bytes.Buffer
	command.Stdin, command.Stdout, command.Stderr = strings.NewReader(input), &out, &problems
	if err := command.Run(); err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(arguments, " "), err, problems.String())
	}
	return out.String()
}

// Log creates a file in the directory of logs, which is kept after a failure.
func Log(t *testing.T, name string) *os.File {
	t.Helper()
	file, err := os.Create(filepath.Join(os.Getenv(logsVariable), name+".log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	return file
}

var namespaces atomic.Int32

// Namespace creates a namespace that admits only restricted pods. After a failure it
// prints the namespace's contents.
func Namespace(t *testing.T) string {
	t.Helper()
	name := strings.ToLower(strings.NewReplacer("/", "-", "_", "-", ",", "", "#", "").Replace(strings.TrimPrefix(t.Name(), "Test")))
	name = fmt.Sprintf("t%d-%s", namespaces.Add(1), strings.TrimRight(name[:min(len(name), 50)], "-"))
	Kubectl(t, "create", "namespace", name)
	Kubectl(t, "label", "namespace", name, "pod-security.kubernetes.io/enforce=restricted")
	t.Cleanup(func() {
		if t.Failed() {
			for _, arguments := range []string{"get pods -o wide", "get events", "describe pods", "logs --tail=60 --all-containers -l app.kubernetes.io/name=web"} {
				out, _ := exec.Command("kubectl", append([]string{"-n", name}, strings.Fields(arguments)...)...).CombinedOutput()
				t.Logf("kubectl %s:\n%s", arguments, out)
			}
		}
		exec.Command("kubectl", "delete", "namespace", name, "--wait=false").Run()
		exec.Command("kubectl", "-n", name, "delete", "pods", "--all", "--grace-period=0", "--force").Run()
	})
	return name
}

// Pods returns the pods of a namespace that are not terminating.
func Pods(t *testing.T, namespace string) []corev1.Pod {
	t.Helper()
	var list corev1.PodList
	Decode(t, Kubectl(t, "-n", namespace, "get", "pods", "-o", "json"), &list)
	var staying []corev1.Pod
	for _, p := range list.Items {
		if p.DeletionTimestamp == nil {
			staying = append(staying, p)
		}
	}
	return staying
}

// Eventually waits until check returns nil.
func Eventually(t *testing.T, check func() error) {
	t.Helper()
	deadline := time.Now().Add(WaitTimeout)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %v", WaitTimeout, err)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// Decode decodes JSON, and fails the test on an error.
func Decode(t *testing.T, document string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(document), into); err != nil {
		t.Fatal(err)
	}
}

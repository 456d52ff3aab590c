package push

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// heavy are packages that the gate must not import, because they make it slow to
// start or cost megabytes of memory.
var heavy = []string{
	"go.opencensus.io", "go.opentelemetry.io/otel", "google.golang.org/grpc", "google.golang.org/genproto", "github.com/golang/protobuf",
}

func TestNoHeavyDependencyIsImported(t *testing.T) {
	out, err := exec.Command("go", "list", "-buildvcs=false", "-deps", "../otlp", "../tracing", "../push").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	packages := strings.Fields(string(out))
	for _, p := range packages {
		for _, h := range heavy {
			if p == h || strings.HasPrefix(p, h+"/") {
				t.Errorf("%s", p)
			}
		}
	}
	if !slices.Contains(packages, "go.opentelemetry.io/proto/slim/otlp/trace/v1") || !slices.Contains(packages, "github.com/prometheus/client_model/go") {
		t.Errorf("not the expected file: %q", packages)
	}
}

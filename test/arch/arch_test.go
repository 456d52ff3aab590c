package arch

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestTheRepositoryKeepsItsDependencyRules(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	readTree(t, root)
	packages := list(t, root)
	for _, want := range []string{"cmd/queue", "cmd/demo", "pkg/gate", "pkg/gate/http1", "pkg/probe"} {
		if !slices.ContainsFunc(packages, func(p Package) bool { return p.ImportPath == module+"/"+want }) {
			t.Errorf("%s is not among the packages that were checked", want)
		}
	}
	for _, line := range Check(packages) {
		t.Error(line)
	}
}

// list returns the packages of the module and their dependencies.
func list(t *testing.T, root string) []Package {
	t.Helper()
	cmd := exec.Command("go", "list", "-buildvcs=false", "-e", "-deps", "-json=ImportPath,Imports,TestImports,XTestImports,ImportMap", "./...")
	cmd.Dir = root
	var complaints strings.Builder
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, &complaints)
	}
	var packages []Package
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p Package
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
}

// readTree opens every directory of the module. The result cache of go test tracks only
// what the test itself opens, so without readTree a new import could leave a cached "ok".
func readTree(t *testing.T, root string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		if path != root && strings.HasPrefix(entry.Name(), ".") || entry.Name() == "bin" {
			return fs.SkipDir
		}
		_, err = os.ReadDir(path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestEachViolatedRuleIsReported(t *testing.T) {
	for _, c := range []struct {
		name string
		pkg  Package
		want string
	}{
		{"a library imports another library",
			imports("pkg/probe", "pkg/metrics"),
			"not in the table of packages: pkg/probe imports pkg/metrics"},
		{"a subpackage imports a package below another library",
			imports("pkg/metrics/tracing", "pkg/probe/check"),
			"not in the table of packages: pkg/metrics/tracing imports pkg/probe/check"},
		{"an engine imports another library",
			imports("pkg/gate/http1", "pkg/metrics/tracing"),
			"not in the table of packages: pkg/gate/http1 imports pkg/metrics/tracing"},
		{"readiness imports an engine",
			imports("pkg/probe", "pkg/gate", "pkg/gate/http1"),
			"not in the table of packages: pkg/probe imports pkg/gate/http1"},
		{"the status page imports event loops",
			imports("pkg/metrics/statuspage", "pkg/gate", "pkg/gate/loop"),
			"not in the table of packages: pkg/metrics/statuspage imports pkg/gate/loop"},
		{"a program imports test helpers",
			imports("cmd/queue", "internal/testkit"),
			"only tests import it: cmd/queue imports internal/testkit"},
		{"a test imports an engine",
			Package{ImportPath: module + "/pkg/metrics", TestImports: []string{module + "/pkg/gate/http1"}},
			"not in the table of packages: pkg/metrics imports pkg/gate/http1"},
		{"an external test imports another library",
			Package{ImportPath: module + "/pkg/metrics", XTestImports: []string{module + "/pkg/probe"}},
			"not in the table of packages: pkg/metrics imports pkg/probe"},
		{"a library imports a program",
			imports("pkg/probe", "cmd/queue/internal/config"),
			"not in the table of packages: pkg/probe imports cmd/queue/internal/config"},
		{"a new directory under pkg",
			imports("pkg/extra", "pkg/gate"),
			"not in the table of packages: pkg/extra"},
		{"the demo container imports the gate",
			imports("cmd/demo", "pkg/gate"),
			"not in the table of packages: cmd/demo imports pkg/gate"},
		{"another program imports several libraries",
			imports("cmd/other", "pkg/gate/http1", "pkg/gate", "pkg/probe"),
			"only cmd/queue and pkg/embed tie the packages together: cmd/other imports pkg/gate and pkg/probe"},
		{"the embed library imports a package that it does not need",
			imports("pkg/embed", "pkg/probe"),
			"not in the table of packages: pkg/embed imports pkg/probe"},
		{"the gate imports the embed library",
			imports("pkg/gate", "pkg/embed"),
			"not in the table of packages: pkg/gate imports pkg/embed"},
		{"the gate imports an engine",
			imports("pkg/gate", "pkg/gate/http2"),
			"not in the table of packages: pkg/gate imports pkg/gate/http2"},
		{"the gate imports metrics",
			imports("pkg/gate", "pkg/metrics"),
			"not in the table of packages: pkg/gate imports pkg/metrics"},
		{"the wire format imports event loops",
			imports("pkg/gate/wire", "pkg/gate", "pkg/gate/loop"),
			"not in the table of packages: pkg/gate/wire imports pkg/gate/loop"},
		{"event loops import the wire format",
			imports("pkg/gate/loop", "pkg/gate/wire"),
			"not in the table of packages: pkg/gate/loop imports pkg/gate/wire"},
		{"HTTP/1 imports HTTP/2",
			imports("pkg/gate/http1", "pkg/gate/http2"),
			"not in the table of packages: pkg/gate/http1 imports pkg/gate/http2"},
		{"HTTP/2 imports HTTP/1 outside its tests",
			imports("pkg/gate/http2", "pkg/gate/http1"),
			"not in the table of packages: pkg/gate/http2 imports pkg/gate/http1"},
		{"event loops import an HTTP library",
			imports("pkg/gate/loop", "net/http"),
			"pkg/gate/loop knows no HTTP library: " + module + "/pkg/gate/loop imports net/http"},
		{"the gate imports an HTTP library",
			imports("pkg/gate", "net/http"),
			"pkg/gate knows no HTTP library: " + module + "/pkg/gate imports net/http"},
		{"the gate imports fasthttp",
			imports("pkg/gate", "github.com/valyala/fasthttp"),
			"pkg/gate knows no HTTP library: " + module + "/pkg/gate imports github.com/valyala/fasthttp"},
		{"the gate's binary imports OpenCensus",
			imports("cmd/queue", "go.opencensus.io"),
			"cmd/queue does without OpenCensus: " + module + "/cmd/queue imports go.opencensus.io"},
		{"a part of the gate's binary imports OpenCensus' spans",
			imports("cmd/queue/internal/app", "go.opencensus.io/trace"),
			"cmd/queue does without OpenCensus: " + module + "/cmd/queue/internal/app imports go.opencensus.io/trace"},
		{"the gate's binary imports OpenCensus' metrics",
			imports("cmd/queue", "go.opencensus.io/metric/metricdata"),
			"cmd/queue does without OpenCensus: " + module + "/cmd/queue imports go.opencensus.io/metric/metricdata"},
	} {
		if got := Check([]Package{c.pkg}); !slices.Equal(got, []string{c.want}) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestAnIndirectImportOfAnHTTPLibraryIsReported(t *testing.T) {
	gate := Package{ImportPath: module + "/pkg/gate", Imports: []string{"errors", "log/x"}}
	behind := Package{
		ImportPath: "log/x",
		Imports:    []string{"errors", "web"},
		ImportMap:  map[string]string{"web": "net/http/httptrace"},
	}
	want := []string{"pkg/gate knows no HTTP library: " + module + "/pkg/gate imports log/x imports net/http/httptrace"}
	if got := Check([]Package{gate, behind}); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestAnIndirectImportOfOpenCensusIsReported(t *testing.T) {
	queue, tracing := imports("cmd/queue", "pkg/metrics/tracing"), imports("pkg/metrics/tracing", "go.opencensus.io/trace/tracestate")
	want := []string{"cmd/queue does without OpenCensus: " + queue.ImportPath + " imports " + tracing.ImportPath + " imports go.opencensus.io/trace/tracestate"}
	if got := Check([]Package{queue, tracing}); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestAllowedImportsAreNotReported(t *testing.T) {
	queue := imports("cmd/queue", "pkg/gate", "pkg/gate/http1", "pkg/probe", "pkg/metrics/tracing", "go.opencensus.io.example/trace")
	queue.TestImports = []string{"go.opencensus.io/trace"}
	tracing := imports("pkg/metrics/tracing", "pkg/metrics/otlp")
	tracing.TestImports = []string{"go.opencensus.io/trace/tracestate"}
	http2 := imports("pkg/gate/http2", "pkg/gate")
	http2.TestImports, http2.XTestImports = []string{module + "/pkg/gate/http1"}, []string{module + "/pkg/gate/http1"}
	allowed := []Package{
		queue,
		tracing,
		imports("pkg/gate/http1", "pkg/gate", "net/http", "github.com/valyala/fasthttp"),
		http2,
		imports("cmd/queue/internal/app", "cmd/queue/internal/config", "pkg/gate", "pkg/gate/http1", "pkg/metrics", "pkg/probe"),
		imports("pkg/probe", "pkg/gate", "pkg/probe/check", "net/http"),
		imports("pkg/metrics/tracing", "pkg/gate", "pkg/metrics/otlp"),
		imports("pkg/gate/wire", "pkg/gate", "golang.org/x/net/http2/hpack"),
		imports("pkg/gate/http1", "pkg/gate/wire", "pkg/gate/loop", "pkg/gate/internal/field"),
		imports("pkg/gate/tlsfront", "pkg/gate", "pkg/gate/loop", "pkg/gate/http2"),
		imports("pkg/embed", "pkg/gate", "pkg/metrics", "net/http"),
		imports("pkg/metrics/census", "go.opencensus.io/metric", "go.opencensus.io/trace"),
		imports("pkg/gate", "pkg/gate/internal/ring", "net", "net/textproto"),
		imports("test/e2e", "test/e2e/remote"),
	}
	if got := Check(allowed); got != nil {
		t.Errorf("reported %q", got)
	}
}

// imports returns a package of the module. The first parameter is the path of this
// package, relative to the module. The other parameters are the paths that it imports. An
// imported path is relative to the module if it begins with cmd, internal, pkg or test.
// Any other imported path is outside the module.
func imports(here string, imported ...string) Package {
	p := Package{ImportPath: module + "/" + here}
	for _, name := range imported {
		switch top, _, _ := strings.Cut(name, "/"); top {
		case "cmd", "internal", "pkg", "test":
			name = module + "/" + name
		}
		p.Imports = append(p.Imports, name)
	}
	return p
}

package arch

import (
	"fmt"
	"slices"
	"strings"
)

const module = "github.com/queuegate/queuegate"

// testkit and its subpackages have test helpers. The tests of every package may import
// them.
const testkit = "internal/testkit"

// A dirRule is the rule for a place. A place is a directory and all packages in it and
// below it. If another place is nested in the directory, the packages of the nested place
// do not belong to the outer place.
type dirRule struct {
	dir string
	// imports lists the packages of the module that the packages of this place may import.
	// "pkg/x/..." means pkg/x and all packages below it.
	imports []string
	// testImports lists the packages that the tests of this place may import in addition
	// to imports.
	testImports []string
}

// places is the table of packages in docs/design.md. Each package in pkg/ has a place. A
// package without a place, such as a test, may import anything.
var places = []dirRule{
	{"pkg/gate", []string{"pkg/gate/internal/..."}, nil},
	{"pkg/gate/internal", nil, nil},
	{"pkg/gate/admission", []string{"pkg/gate", "pkg/gate/internal/..."}, nil},
	{"pkg/gate/loop", []string{"pkg/gate/internal/..."}, nil},
	{"pkg/gate/wire", []string{"pkg/gate", "pkg/gate/internal/...", "pkg/gate/wire/h2"}, nil},
	{"pkg/gate/wire/h2", []string{"pkg/gate/internal/..."}, nil},
	{"pkg/gate/exchange", []string{"pkg/gate", "pkg/gate/internal/...", "pkg/gate/admission", "pkg/gate/loop", "pkg/gate/wire", "pkg/gate/wire/orca"}, nil},
	{"pkg/gate/upstream", []string{"pkg/gate", "pkg/gate/loop", "pkg/gate/exchange"}, nil},
	{"pkg/gate/server", []string{"pkg/gate", "pkg/gate/internal/...", "pkg/gate/loop", "pkg/gate/exchange", "pkg/gate/upstream"}, nil},
	{"pkg/gate/http1", []string{"pkg/gate", "pkg/gate/internal/...", "pkg/gate/loop", "pkg/gate/wire/...", "pkg/gate/exchange", "pkg/gate/upstream", "pkg/gate/server"}, nil},
	// Only the tests of http2 import http1. They use HTTP/1 clients and containers.
	{"pkg/gate/http2", []string{"pkg/gate", "pkg/gate/internal/...", "pkg/gate/loop", "pkg/gate/wire/...", "pkg/gate/exchange", "pkg/gate/upstream", "pkg/gate/server"}, []string{"pkg/gate/http1"}},
	{"pkg/gate/tlsfront", []string{"pkg/gate/...", "internal/filewatch"}, nil},
	{"pkg/embed", []string{"pkg/gate/...", "pkg/metrics/..."}, nil},
	{"pkg/probe", []string{"pkg/gate", "pkg/internal/..."}, nil},
	{"pkg/enginemetrics", []string{"pkg/gate", "pkg/gate/admission"}, nil},
	{"pkg/metrics", []string{"pkg/gate", "pkg/internal/..."}, nil},
	// An HTTP/2 client in pkg/internal uses the HTTP/2 codec.
	{"pkg/internal", []string{"pkg/gate/wire/h2"}, nil},
	{"internal/filewatch", nil, nil},
	{"internal/sockdiag", nil, nil},
	{"cmd/demo", nil, nil},
}

// placeOf returns the place that a package belongs to, or nil if there is none. If the
// package is in nested places, the result is the innermost one.
func placeOf(path string) *dirRule {
	var found *dirRule
	for i := range places {
		if p := &places[i]; within(path, p.dir) && (found == nil || len(p.dir) > len(found.dir)) {
			found = p
		}
	}
	return found
}

// mayImport reports whether the packages of p may import the package target. If isTest is
// true, it reports whether their tests may import it.
func (p *dirRule) mayImport(target string, isTest bool) bool {
	if placeOf(target) == p {
		return true
	}
	imports := p.imports
	if isTest {
		imports = slices.Concat(imports, p.testImports)
	}
	return slices.ContainsFunc(imports, func(allowed string) bool {
		if dir, below := strings.CutSuffix(allowed, "/..."); below {
			return within(target, dir)
		}
		return target == allowed
	})
}

// A Package is an element of the output of go list -json.
type Package struct {
	ImportPath   string
	Imports      []string
	TestImports  []string // imports of the _test.go files in the package
	XTestImports []string // imports of the _test.go files in the external test package
	ImportMap    map[string]string
}

// Check returns one line per violated rule, sorted. packages must include all
// dependencies.
func Check(packages []Package) []string {
	graph := make(graph, len(packages))
	for _, p := range packages {
		graph[p.ImportPath] = p
	}
	var broken []string
	report := func(rule string, chain ...string) {
		broken = append(broken, fmt.Sprintf("%s: %s", rule, strings.Join(chain, " imports ")))
	}
	for _, p := range packages {
		here, isLocal := local(p.ImportPath)
		if !isLocal {
			continue
		}
		at := placeOf(here)
		if at == nil && within(here, "pkg") {
			report("not in the table of packages", here)
		}
		imports := slices.Concat(p.Imports, p.TestImports, p.XTestImports)
		for i, imported := range imports {
			target, isLocal := local(imported)
			if isLocal && at != nil && !within(target, testkit) && !at.mayImport(target, i >= len(p.Imports)) {
				report("not in the table of packages", here, target)
			}
		}
		isTestkit := func(imported string) bool { target, _ := local(imported); return within(target, testkit) }
		if slices.ContainsFunc(p.Imports, isTestkit) && !within(here, "pkg/gate/internal/limits") && !within(here, "test") {
			report("only tests import it", here, testkit)
		}
		if tied := families(p.Imports); len(tied) > 1 && !within(here, "pkg") && !within(here, "cmd/queue") {
			report("only cmd/queue and pkg/embed tie the packages together", here, strings.Join(tied, " and "))
		}
		for _, f := range forbidden {
			if !within(here, f.dir) || f.alone && here != f.dir {
				continue
			}
			if chain := graph.path(p.ImportPath, f.library); chain != nil {
				report(f.rule, chain...)
			}
		}
	}
	slices.Sort(broken)
	return slices.Compact(broken)
}

// local returns the import path relative to the module. It returns false for a package
// outside the module.
func local(path string) (string, bool) {
	if path == module {
		return ".", true
	}
	return strings.CutPrefix(path, module+"/")
}

// family returns the first two elements of a path in pkg. For example, it returns pkg/x
// for both pkg/x and pkg/x/y. For a path outside pkg it returns "".
func family(here string) string {
	parts := strings.SplitN(here, "/", 3)
	if len(parts) < 2 || parts[0] != "pkg" {
		return ""
	}
	return "pkg/" + parts[1]
}

func families(imports []string) []string {
	var found []string
	for _, path := range imports {
		if here, isLocal := local(path); isLocal && family(here) != "" {
			found = append(found, family(here))
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

func within(path, root string) bool {
	return path == root || strings.HasPrefix(path, root+"/")
}

// forbidden are libraries that packages must not import, not even indirectly.
var forbidden = []struct {
	dir     string
	alone   bool // the rule does not apply to packages below dir
	rule    string
	library func(path string) bool
}{
	{"pkg/gate", true, "pkg/gate knows no HTTP library", isHTTPLibrary},
	{"pkg/gate/loop", false, "pkg/gate/loop knows no HTTP library", isHTTPLibrary},
	{"cmd/queue", false, "cmd/queue does without OpenCensus", isOpenCensus},
}

func isHTTPLibrary(path string) bool {
	return within(path, "net/http") || within(path, "github.com/valyala/fasthttp") ||
		within(path, "golang.org/x/net/http2") || within(path, "golang.org/x/net/http")
}

// OpenCensus is archived. Its packages compile regular expressions at each start, and its
// package for spans costs 0.5 ms and 0.5 MB of garbage in every pod.
func isOpenCensus(path string) bool { return within(path, "go.opencensus.io") }

// A graph maps import paths to packages.
type graph map[string]Package

// path returns a shortest chain of imports from a package to a wanted one, or nil. It
// ignores tests.
func (g graph) path(from string, wanted func(string) bool) []string {
	cameFrom := map[string]string{from: ""}
	for queue := []string{from}; len(queue) > 0; queue = queue[1:] {
		for _, next := range g[queue[0]].Imports {
			if mapped, ok := g[queue[0]].ImportMap[next]; ok {
				next = mapped
			}
			if _, seen := cameFrom[next]; seen {
				continue
			}
			cameFrom[next] = queue[0]
			if !wanted(next) {
				queue = append(queue, next)
				continue
			}
			var chain []string
			for at := next; at != ""; at = cameFrom[at] {
				chain = append(chain, at)
			}
			slices.Reverse(chain)
			return chain
		}
	}
	return nil
}

package arch

import (
	"fmt"
	"slices"
	"strings"
)

const module = "github.com/queuegate/queuegate"

// embedding is the gate as a library: beside cmd/queue the one place that ties
// pkg/gate and pkg/metrics together.
const embedding = "pkg/embed"

func mayBeEmbedded(target string) bool {
	return within(target, "pkg/gate") || within(target, "pkg/metrics")
}

// A Package is what go list -json says of one package.
type Package struct {
	ImportPath   string
	Imports      []string
	TestImports  []string // of _test.go files in the package
	XTestImports []string // of _test.go files in its _test package
	ImportMap    map[string]string
}

// Check returns one line per broken rule, sorted. The packages must include
// everything that those of the module depend on.
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
		here, ours := local(p.ImportPath)
		if !ours {
			continue
		}
		imports := slices.Concat(p.Imports, p.TestImports, p.XTestImports)
		for _, imported := range imports {
			target, ours := local(imported)
			switch {
			case !ours:
			case family(here) != "" && family(target) != family(here) && !(here == embedding && mayBeEmbedded(target)):
				report("packages under pkg/ import only their own family", here, target)
			case within(here, "bench") && within(target, "pkg"):
				report("bench talks to binaries through sockets only", here, target)
			case within(here, "cmd/demo") && !within(target, "cmd/demo"):
				report("the demo container is a program of its own", here, target)
			}
		}
		if tied := families(p.Imports); len(tied) > 1 && here != "cmd/queue" && here != embedding {
			report("only cmd/queue and pkg/embed tie the packages together", here, strings.Join(tied, " and "))
		}
		if here == "cmd/queue" {
			if chain := graph.path(p.ImportPath, isOpenCensus); chain != nil {
				report("cmd/queue does without OpenCensus", chain...)
			}
		}
		if here == "pkg/gate" {
			if chain := graph.path(p.ImportPath, isHTTPLibrary); chain != nil {
				report("pkg/gate knows no HTTP library", chain...)
			}
			if chain := graph.path(p.ImportPath, isEngine); chain != nil {
				report("engines import pkg/gate, never the reverse", chain...)
			}
		}
	}
	slices.Sort(broken)
	return slices.Compact(broken)
}

// local returns an import path relative to the module, and whether it is in it.
func local(path string) (string, bool) {
	if path == module {
		return ".", true
	}
	return strings.CutPrefix(path, module+"/")
}

// family is pkg/x for pkg/x and all below it, and empty elsewhere.
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
		if here, ours := local(path); ours && family(here) != "" {
			found = append(found, family(here))
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

func within(path, root string) bool {
	return path == root || strings.HasPrefix(path, root+"/")
}

func isEngine(path string) bool {
	here, ours := local(path)
	return ours && (within(here, "pkg/gate/http1") || within(here, "pkg/gate/http2"))
}

func isHTTPLibrary(path string) bool {
	return within(path, "net/http") || within(path, "github.com/valyala/fasthttp") ||
		within(path, "golang.org/x/net/http2") || within(path, "golang.org/x/net/http")
}

// isOpenCensus is true of a library that is archived, and whose spans and
// metrics compile regular expressions at every start of a program that links
// them. Those of the spans are 0.5 ms and 0.5 MB of garbage in every pod.
func isOpenCensus(path string) bool { return within(path, "go.opencensus.io") }

// A graph is keyed by import path.
type graph map[string]Package

// path returns a shortest chain of imports, tests aside, from a package to one
// that is wanted, or nil.
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

package promise

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/queuegate/queuegate/"

func TestTheEmbedAPIMatchesItsRecord(t *testing.T) {
	packages := load(t, "pkg/embed", "pkg/embed/fast", "pkg/embed/status", "pkg/metrics/census")
	for name, p := range packages {
		t.Run(name, func(t *testing.T) {
			compareRecord(t, strings.ReplaceAll(name, "/", "-")+".txt", exported(p))
		})
	}
}

// load reads the types of packages from export data.
func load(t *testing.T, names ...string) map[string]*types.Package {
	t.Helper()
	args := []string{"list", "-buildvcs=false", "-export", "-deps", "-json=ImportPath,Export"}
	for _, name := range names {
		args = append(args, module+name)
	}
	list := exec.Command("go", args...)
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct{ ImportPath, Export string }
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		files[p.ImportPath] = p.Export
	}
	compiled := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) { return os.Open(files[path]) })
	packages := map[string]*types.Package{}
	for _, name := range names {
		if packages[name], err = compiled.Import(module + name); err != nil {
			t.Fatal(err)
		}
	}
	return packages
}

// exported returns a line for each exported name: functions, variables, constants with
// values, types, fields and methods.
func exported(p *types.Package) (lines []string) {
	q := types.RelativeTo(p)
	for _, name := range p.Scope().Names() {
		o := p.Scope().Lookup(name)
		if !o.Exported() {
			continue
		}
		switch o := o.(type) {
		case *types.Const:
			lines = append(lines, types.ObjectString(o, q)+" = "+o.Val().ExactString())
		case *types.TypeName:
			lines = append(lines, ofType(name, o, q)...)
		default:
			lines = append(lines, types.ObjectString(o, q))
		}
	}
	return lines
}

func ofType(name string, o *types.TypeName, q types.Qualifier) (lines []string) {
	t := types.Unalias(o.Type())
	line := "type " + name
	if o.IsAlias() {
		line += " = " + types.TypeString(t, q)
	}
	switch under := t.Underlying().(type) {
	case *types.Struct:
		lines = append(lines, line+" struct")
		for f := range under.Fields() {
			if f.Exported() {
				lines = append(lines, "field "+name+"."+f.Name()+" "+types.TypeString(f.Type(), q))
			}
		}
	default:
		lines = append(lines, line+" "+types.TypeString(under, q))
	}
	for m := range types.NewMethodSet(types.NewPointer(t)).Methods() {
		if f, ok := m.Obj().(*types.Func); ok && f.Exported() {
			receiver := ""
			if _, pointer := f.Signature().Recv().Type().(*types.Pointer); pointer {
				receiver = "*"
			}
			lines = append(lines, "method ("+receiver+name+") "+f.Name()+strings.TrimPrefix(types.TypeString(f.Type(), q), "func"))
		}
	}
	return lines
}

func TestEveryExportedNameIsRecorded(t *testing.T) {
	lines := exported(load(t, "pkg/embed")["pkg/embed"])
	for _, want := range []string{
		"func New(c Config) (*Gate, error)", "field Config.DrainQuiet time.Duration", "type Gate struct",
		"method (*Gate) Drain(ctx context.Context) error", "type Identity = github.com/queuegate/queuegate/pkg/metrics.Identity struct", "field Identity.Pod string",
	} {
		if !slices.Contains(lines, want) {
			t.Errorf("no line %q in\n%s", want, strings.Join(lines, "\n"))
		}
	}
}

package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// sourceNames has the names of the repository. From the Go files it has the names of
// packages, of top-level declarations, and of methods and fields (in the form Type.Name).
// It also has the paths of all files and folders.
type sourceNames struct {
	packages, names, members map[string]bool
	embedded                 map[string][]string // embedded types by type
	paths                    []string            // slash-separated, from the root
}

func readSource(t *testing.T, root string) *sourceNames {
	t.Helper()
	s := &sourceNames{map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string][]string{}, nil}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if strings.HasPrefix(d.Name(), ".") && path != root {
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		relative, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		s.paths = append(s.paths, filepath.ToSlash(relative))
		if d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		s.addFile(file)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *sourceNames) addFile(file *ast.File) {
	s.packages[file.Name.Name] = true
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				s.names[d.Name.Name] = true
			} else {
				s.members[typeName(d.Recv.List[0].Type)+"."+d.Name.Name] = true
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				s.addSpec(spec)
			}
		}
	}
}

func (s *sourceNames) addSpec(spec ast.Spec) {
	switch spec := spec.(type) {
	case *ast.ValueSpec:
		for _, n := range spec.Names {
			s.names[n.Name] = true
		}
	case *ast.TypeSpec:
		s.names[spec.Name.Name] = true
		var fields *ast.FieldList
		switch of := spec.Type.(type) {
		case *ast.StructType:
			fields = of.Fields
		case *ast.InterfaceType:
			fields = of.Methods
		default:
			return
		}
		for _, f := range fields.List {
			for _, n := range f.Names {
				s.members[spec.Name.Name+"."+n.Name] = true
			}
			if embedded := typeName(f.Type); len(f.Names) == 0 && embedded != spec.Name.Name {
				s.embedded[spec.Name.Name] = append(s.embedded[spec.Name.Name], embedded)
			}
		}
	}
}

// typeName returns the name of a type without its package and type arguments.
func typeName(expr ast.Expr) string {
	switch of := expr.(type) {
	case *ast.StarExpr:
		return typeName(of.X)
	case *ast.IndexExpr:
		return typeName(of.X)
	case *ast.IndexListExpr:
		return typeName(of.X)
	case *ast.SelectorExpr:
		return of.Sel.Name
	case *ast.Ident:
		return of.Name
	}
	return ""
}

// known reports whether a name is declared: package.Name, Type.Member or
// package.Type.Member. The package may be a path.
func (s *sourceNames) known(name string) bool {
	parts := strings.Split(name[strings.LastIndex(name, "/")+1:], ".")
	if len(parts) == 3 && s.packages[parts[0]] {
		parts = parts[1:]
	}
	return len(parts) == 2 && (s.hasMember(parts[0], parts[1]) || s.packages[parts[0]] && s.names[parts[1]])
}

// hasMember also looks in embedded types.
func (s *sourceNames) hasMember(owner, member string) bool {
	if s.members[owner+"."+member] {
		return true
	}
	for _, e := range s.embedded[owner] {
		if e != owner && s.hasMember(e, member) {
			return true
		}
	}
	return false
}

// has reports whether a file or folder has this path, or a path that ends with it.
func (s *sourceNames) has(path string) bool {
	for _, p := range s.paths {
		if p == path || strings.HasSuffix(p, "/"+path) {
			return true
		}
	}
	return false
}

var (
	quotedName = regexp.MustCompile("`([A-Za-z][A-Za-z0-9/_]*(?:\\.[A-Za-z][A-Za-z0-9]*)+)`")
	quotedPath = regexp.MustCompile("`((?:[a-z0-9]+/)+[a-z0-9_]+(?:\\.[a-z]+)?|[a-z0-9_]+\\.go)`")
	ofOthers   = map[string]bool{"iter.Pull": true, "http.Request": true} // names of the standard library
)

func TestTheCodeThatTheDesignPageNamesExists(t *testing.T) {
	const root = "../.."
	text, err := os.ReadFile(filepath.Join(root, "docs/design.md"))
	if err != nil {
		t.Fatal(err)
	}
	s := readSource(t, root)
	seen := 0
	for _, m := range quotedPath.FindAllStringSubmatch(string(text), -1) {
		seen++
		if !s.has(m[1]) {
			t.Errorf("docs/design.md names %s, which is not a file or folder", m[1])
		}
	}
	for _, m := range quotedName.FindAllStringSubmatch(string(text), -1) {
		if name := m[1]; !strings.HasSuffix(name, ".go") && !ofOthers[name] {
			seen++
			if !s.known(name) {
				t.Errorf("docs/design.md names %s, which is not declared", name)
			}
		}
	}
	if seen < 50 {
		t.Errorf("only %d names were found in docs/design.md", seen)
	}
}

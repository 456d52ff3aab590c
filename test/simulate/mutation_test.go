package simulate

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// mutation is a planted fault: new tokens in one declaration of the gate. Comments,
// formatting and the file do not matter.
type mutation struct {
	name   string
	target string // package.Func, package.Type.Method, or package.name of a constant or variable
	old    string // tokens that the declaration has exactly once
	new    string // empty = remove old
}

// source is a Go file under the root of the gate's packages.
type source struct {
	path string
	text []byte
	set  *token.FileSet
	file *ast.File
}

// readSources parses the Go files below root, except tests.
func readSources(root string) (all []source, err error) {
	err = filepath.WalkDir(root, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		s := source{path: path, set: token.NewFileSet()}
		if s.text, err = os.ReadFile(path); err != nil {
			return err
		}
		s.file, err = parser.ParseFile(s.set, path, s.text, parser.SkipObjectResolution)
		all = append(all, s)
		return err
	})
	return all, err
}

// mutate returns the changed file and its new content.
func (m *mutation) mutate(all []source) (path, text string, err error) {
	for i := range all {
		s := &all[i]
		for _, d := range s.file.Decls {
			for _, n := range declarations(d) {
				if s.file.Name.Name+"."+n.name != m.target {
					continue
				}
				if path != "" {
					return "", "", fmt.Errorf("%s: %s is declared in %s and %s", m.name, m.target, path, s.path)
				}
				begin, end := s.set.Position(n.node.Pos()).Offset, s.set.Position(n.node.End()).Offset
				changed, err := replaceTokens(string(s.text[begin:end]), m.old, m.new)
				if err != nil {
					return "", "", fmt.Errorf("%s: %s: %w", m.name, m.target, err)
				}
				path, text = s.path, string(s.text[:begin])+changed+string(s.text[end:])
			}
		}
	}
	if path == "" {
		return "", "", fmt.Errorf("%s: %s is not declared", m.name, m.target)
	}
	return path, text, nil
}

type namedNode struct {
	name string
	node ast.Node
}

func declarations(d ast.Decl) (all []namedNode) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		name := d.Name.Name
		if d.Recv != nil {
			t := d.Recv.List[0].Type
			if p, ok := t.(*ast.StarExpr); ok {
				t = p.X
			}
			if generic, ok := t.(*ast.IndexExpr); ok {
				t = generic.X
			}
			if id, ok := t.(*ast.Ident); ok {
				name = id.Name + "." + name
			}
		}
		return []namedNode{{name, d}}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			if v, ok := spec.(*ast.ValueSpec); ok {
				all = append(all, namedNode{v.Names[0].Name, v})
			}
		}
	}
	return all
}

// lexeme is a token and its position.
type lexeme struct {
	text       string
	begin, end int
}

// lex returns the tokens without comments and automatic semicolons.
func lex(text string) (all []lexeme) {
	var s scanner.Scanner
	set := token.NewFileSet()
	f := set.AddFile("", set.Base(), len(text))
	s.Init(f, []byte(text), nil, 0)
	for {
		pos, tok, lit := s.Scan()
		switch {
		case tok == token.EOF:
			return all
		case tok == token.SEMICOLON && lit != ";":
			continue
		case lit == "":
			lit = tok.String()
		}
		begin := f.Offset(pos)
		all = append(all, lexeme{lit, begin, begin + len(lit)})
	}
}

// replaceTokens replaces the tokens of old, which text must contain exactly once.
func replaceTokens(text, old, new string) (string, error) {
	equal := func(a, b lexeme) bool { return a.text == b.text }
	in, wanted := lex(text), lex(old)
	if len(wanted) == 0 {
		return "", fmt.Errorf("no tokens to replace")
	}
	at := -1
	for i := 0; i+len(wanted) <= len(in); i++ {
		if !slices.EqualFunc(in[i:i+len(wanted)], wanted, equal) {
			continue
		}
		if at >= 0 {
			return "", fmt.Errorf("%q occurs more than once", old)
		}
		at = i
	}
	if at < 0 {
		return "", fmt.Errorf("%q does not occur", old)
	}
	return text[:in[at].begin] + new + text[in[at+len(wanted)-1].end:], nil
}

func TestAMutationIgnoresFormattingAndComments(t *testing.T) {
	const text = "func f(a, b bool) bool {\n\treturn a && // why\n\t\t!b\n}\n"
	for _, c := range []struct{ old, new, want string }{
		{"a&&!b", "a", "func f(a, b bool) bool {\n\treturn a\n}\n"},
		{"&& !b", "", "func f(a, b bool) bool {\n\treturn a \n}\n"},
		{"return a", "return true || a", "func f(a, b bool) bool {\n\treturn true || a && // why\n\t\t!b\n}\n"},
	} {
		if got, err := replaceTokens(text, c.old, c.new); err != nil || got != c.want {
			t.Errorf("%q: %q, %v", c.old, got, err)
		}
	}
	for _, old := range []string{"bool", "a || b", "", "// why"} {
		if got, err := replaceTokens(text, old, "x"); err == nil {
			t.Errorf("%q: %q", old, got)
		}
	}
}

func TestAMutationChangesOnlyTheDeclarationThatItNames(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.go":      "package p\n\nfunc (t *T) f() int { return 1 }\n",
		"b.go":      "package p\n\ntype T struct{}\n\nconst (\n\tone = 1\n\ttwo = 2\n)\n\nfunc f() int { return 1 }\n",
		"c_test.go": "package p\n\nfunc f() int { return 1 }\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	all, err := readSources(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ target, old, file, want string }{
		{"p.T.f", "return 1", "a.go", "package p\n\nfunc (t *T) f() int { return 3 }\n"},
		{"p.f", "return 1", "b.go", "const (\n\tone = 1\n\ttwo = 2\n)\n\nfunc f() int { return 3 }\n"},
		{"p.two", "2", "b.go", "two = return 3\n)"},
	} {
		m := mutation{target: c.target, old: c.old, new: "return 3"}
		if path, text, err := m.mutate(all); err != nil || filepath.Base(path) != c.file || !strings.Contains(text, c.want) {
			t.Errorf("%s: %s, %q, %v", c.target, path, text, err)
		}
	}
	for _, in := range []string{"p.g", "q.f", "p.T"} {
		m := mutation{target: in, old: "1"}
		if path, _, err := m.mutate(all); err == nil {
			t.Errorf("%s was found in %s", in, path)
		}
	}
}

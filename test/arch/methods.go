package arch

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// mostMethods is how many methods a type on the path of requests has at most: one
// with more has more than one subject.
const mostMethods = 25

// onThePath are the packages that this is said of.
var onThePath = []string{"pkg/gate/http1", "pkg/gate/http2"}

// CheckMethods returns one line per type of the packages in the tree at root that
// has more methods of its own, tests aside. What it embeds does not count.
func CheckMethods(root string) (broken []string, err error) {
	for _, dir := range onThePath {
		methods := map[string]int{}
		files, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
		if err == nil && len(files) == 0 {
			err = fs.ErrNotExist
		}
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", dir, err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			if err != nil {
				return nil, fmt.Errorf("reading %s: %w", file, err)
			}
			for _, d := range f.Decls {
				if d, ok := d.(*ast.FuncDecl); ok && d.Recv != nil {
					methods[receiver(d.Recv.List[0].Type)]++
				}
			}
		}
		for name, n := range methods {
			if n > mostMethods {
				broken = append(broken, fmt.Sprintf("%s.%s has %d methods, at most %d", dir, name, n, mostMethods))
			}
		}
	}
	slices.Sort(broken)
	return broken, nil
}

// receiver is the name of a receiver's type.
func receiver(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.StarExpr:
		return receiver(x.X)
	case *ast.IndexExpr:
		return receiver(x.X)
	case *ast.IndexListExpr:
		return receiver(x.X)
	case *ast.Ident:
		return x.Name
	}
	return ""
}

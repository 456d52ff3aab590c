package arch

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestNoTypeOnThePathOfRequestsHasTooManyMethods(t *testing.T) {
	broken, err := CheckMethods("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range broken {
		t.Error(line)
	}
}

func TestATypeWithTooManyMethodsIsNoticed(t *testing.T) {
	root := t.TempDir()
	write := func(dir, file, text string) {
		path := filepath.Join(root, dir, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	method := func(receiver string, n int) string {
		return "func (" + receiver + ") m" + strings.Repeat("x", n) + "() {}\n"
	}
	many, enough, tests := "package http1\ntype many[T any] struct{}\n", "package http1\ntype enough struct{ many[int] }\n", "package http1\n"
	for i := range mostMethods {
		many += method("m *many[T]", i)
		enough += method("enough", i)
		tests += method("e *enough", 100+i)
	}
	write("pkg/gate/http1", "many.go", many)
	write("pkg/gate/http1", "more.go", "package http1\n"+method("*many[T]", 99))
	write("pkg/gate/http1", "enough.go", enough)
	write("pkg/gate/http1", "enough_test.go", tests)
	write("pkg/gate/http2", "none.go", "package http2\n")
	broken, err := CheckMethods(root)
	if want := []string{"pkg/gate/http1.many has 26 methods, at most 25"}; err != nil || !slices.Equal(broken, want) {
		t.Errorf("%q %v, want %q", broken, err, want)
	}
}

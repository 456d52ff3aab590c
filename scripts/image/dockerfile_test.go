package main

import (
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// stage has the properties of a stage of a Dockerfile.
type stage struct {
	base   string
	config v1.Config
	files  []string
}

var pair = regexp.MustCompile(`([\w.]+)=("[^"]*"|\S+)`)

// stages parses a Dockerfile. An unknown instruction in a stage from scratch is an
// error.
func stages(t *testing.T, text string, variables map[string]string) map[string]*stage {
	t.Helper()
	all := map[string]*stage{}
	var s *stage
	text = strings.ReplaceAll(text, "\\\n", " ")
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(line, "#") {
			continue
		}
		rest := strings.TrimSpace(strings.TrimPrefix(line, fields[0]))
		if fields[0] == "FROM" {
			s = &stage{base: fields[len(fields)-3], config: v1.Config{ExposedPorts: map[string]struct{}{}, Labels: map[string]string{}}}
			all[fields[len(fields)-1]] = s
			continue
		}
		if s.base != "scratch" {
			continue
		}
		switch fields[0] {
		case "ARG":
		case "LABEL":
			for _, m := range pair.FindAllStringSubmatch(rest, -1) {
				s.config.Labels[m[1]] = os.Expand(strings.Trim(m[2], `"`), func(name string) string { return variables[name] })
			}
		case "ENV":
			s.config.Env = append(s.config.Env, fields[1:]...)
		case "WORKDIR":
			s.config.WorkingDir = rest
		case "COPY":
			s.files = append(s.files, fields[len(fields)-1])
		case "EXPOSE":
			for _, port := range fields[1:] {
				s.config.ExposedPorts[port] = struct{}{}
			}
		case "USER":
			s.config.User = rest
		case "ENTRYPOINT":
			for word := range strings.SplitSeq(strings.Trim(rest, "[]"), ",") {
				word, err := strconv.Unquote(strings.TrimSpace(word))
				if err != nil {
					t.Fatalf("%s: %v", line, err)
				}
				s.config.Entrypoint = append(s.config.Entrypoint, word)
			}
		default:
			t.Errorf("unexpected instruction: %s", line)
		}
	}
	return all
}

func TestTheDockerfileBuildsTheSameImages(t *testing.T) {
	text, err := os.ReadFile(root + "/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	all := stages(t, string(text), map[string]string{"VERSION": madeOf.version, "COMMIT": madeOf.commit})
	if names := slices.Sorted(maps.Keys(all)); !slices.Equal(names, []string{"build", "demo", "queue"}) {
		t.Errorf("stages %q", names)
	}
	for _, p := range programs {
		s := all[p.name]
		if s == nil || s.base != "scratch" {
			t.Fatalf("stage %s: %+v", p.name, s)
		}
		if want := p.config(madeOf); !reflect.DeepEqual(s.config, want) {
			t.Errorf("%s: the Dockerfile says\n%+v, the image\n%+v", p.name, s.config, want)
		}
		if !slices.Equal(s.files, p.files()) {
			t.Errorf("%s: files %q, want %q", p.name, s.files, p.files())
		}
	}
	// A build without --target builds the last stage.
	if last := strings.LastIndex(string(text), "FROM "); !strings.HasPrefix(string(text)[last:], "FROM scratch AS queue\n") {
		t.Error("the last stage is not the gate")
	}
	module, err := os.ReadFile(root + "/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(string(module))[1]
	if want := "golang:" + version; all["build"].base != want {
		t.Errorf("built with %s, want %s", all["build"].base, want)
	}
}

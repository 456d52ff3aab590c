package target

import (
	"fmt"
	"io/fs"
	"maps"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
)

// Options configure an instance for a scenario.
type Options struct {
	// Origin is the port of the container behind the target.
	Origin int
	// Limit is the concurrency limit. 0 = no limit.
	Limit int
	// AutoLimit replaces Limit by an adaptive limit.
	AutoLimit bool
	// AutoLeast is the minimum of the adaptive limit. 0 = the target's default.
	AutoLeast int
	// FairBy and PriorityBy are the header fields for fairness and priority in the queue.
	// "" = FIFO.
	FairBy, PriorityBy string
	// QueueCapacity is the maximum number of queued requests. 0 = the target's default.
	QueueCapacity int
	// H2Clients is set if clients use HTTP/2. H2C is set if the target must use HTTP/2 to
	// the origin.
	H2Clients, H2C bool
	// Engine is set if the origin is a model server with the metrics of vLLM.
	Engine bool
	// Profile enables pprof.
	Profile bool
	// Cold is set if the origin does not listen yet, so that a readiness request would
	// not succeed. The instance then counts as ready when it listens.
	Cold bool
}

// A rendered target is the command line, environment and files of an instance.
type rendered struct {
	argv  []string
	env   []string
	files map[string]string // by absolute path
}

// values are the variables of the templates.
type values struct {
	Options
	Binary string
	Dir    string // writable, with the rendered files
	Unique string // different for each instance
	User   string // user of the harness
}

func (t *Target) render(dir, binary string, ports map[string]int, options Options) (*rendered, error) {
	v := values{Options: options, Binary: binary, Dir: dir, Unique: filepath.Base(dir), User: "root"}
	if u, err := user.Current(); err == nil {
		v.User = u.Username
	}
	functions := template.FuncMap{
		"port": func(name string) (int, error) {
			if p, ok := ports[name]; ok {
				return p, nil
			}
			return 0, fmt.Errorf("no port is named %q", name)
		},
		"file": func(name string) (string, error) {
			if _, ok := t.Files[name]; ok {
				return filepath.Join(dir, name), nil
			}
			return "", fmt.Errorf("no file is named %q", name)
		},
	}
	var failed error
	expand := func(description, text string) string {
		parsed, err := template.New(description).Option("missingkey=error").Funcs(functions).Parse(text)
		var out strings.Builder
		if err == nil {
			err = parsed.Execute(&out, v)
		}
		if err != nil && failed == nil {
			failed = fmt.Errorf("template of %s: %w", description, err)
		}
		return out.String()
	}
	r := &rendered{files: map[string]string{}}
	for i, text := range t.Command {
		r.argv = append(r.argv, expand(fmt.Sprintf("command[%d]", i), text))
	}
	env := maps.Collect(maps.All(t.Env))
	if options.Profile && t.Profile != nil {
		maps.Copy(env, t.Profile.Env)
	}
	for name, text := range env {
		r.env = append(r.env, name+"="+expand("env "+name, text))
	}
	slices.Sort(r.env)
	for name, source := range t.Files {
		if name != filepath.Base(name) {
			return nil, fmt.Errorf("file %q must be a plain name", name)
		}
		text, err := fs.ReadFile(t.templates, source)
		if err != nil {
			return nil, fmt.Errorf("file %s: %w", name, err)
		}
		r.files[filepath.Join(dir, name)] = expand(source, string(text))
	}
	return r, failed
}

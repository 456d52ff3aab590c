package manifest

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// File is a file of manifests.
type File struct {
	Name string
	Text string
}

// Note says what was left as it is, or what a reader should know.
type Note struct {
	File, Object string // the latter is as kubectl writes it: deployment/web
	Text         string
	Left         bool // the object, or the file, is as it was
}

func (n Note) String() string {
	where := n.File
	if n.Object != "" {
		where += ": " + n.Object
	}
	if n.Left {
		return where + ": left as it is: " + n.Text
	}
	return where + ": " + n.Text
}

// Options say what the gate is like that Inject puts in.
type Options struct {
	Image       string
	Container   string // name of the container that serves; "" = the first with a port
	UserPort    int    // 0 = its port
	Concurrency int    // 0 = unlimited
	Services    bool   // point Services at the gate
	// LiveSettings mounts the pod's annotations at podInfoDir of the gate.
	LiveSettings bool
}

// Inject puts the gate into the workloads of all files. Files whose objects have
// it already are brought to what the options say.
func Inject(files []File, o Options) (injected []File, notes []Note) {
	clean, notes := Uninject(files)
	var workloads []workload
	sources := make([]*source, len(clean))
	for i, f := range clean {
		s, err := parse(f.Text)
		if err != nil {
			continue // Uninject has said so
		}
		sources[i] = s
		for _, o2 := range s.objects() {
			w, said, err := s.inject(o2, o)
			for _, text := range said {
				notes = append(notes, Note{File: f.Name, Object: o2.String(), Text: text})
			}
			if err != nil {
				notes = append(notes, Note{f.Name, o2.String(), err.Error(), true})
			} else if w != nil {
				workloads = append(workloads, *w)
			}
		}
	}
	for i, f := range clean {
		if sources[i] != nil && o.Services {
			for _, service := range sources[i].objects() {
				said, err := sources[i].redirect(service, workloads)
				for _, text := range said {
					notes = append(notes, Note{File: f.Name, Object: service.String(), Text: text})
				}
				if err != nil {
					notes = append(notes, Note{f.Name, service.String(), err.Error(), true})
				}
			}
		}
		result, err := f, error(nil)
		if sources[i] != nil {
			if result.Text, err = sources[i].checked(); err != nil {
				result = f
				notes = append(notes, Note{f.Name, "", err.Error(), true})
			}
		}
		injected = append(injected, result)
	}
	return injected, notes
}

// checked makes the edits, and makes sure that they can be taken back.
func (s *source) checked() (string, error) {
	result, err := apply(s.text, s.edits)
	if err != nil {
		return "", err
	}
	if len(s.edits) == 0 {
		return result, nil
	}
	back, notes := Uninject([]File{{Text: result}})
	if len(notes) > 0 || back[0].Text != s.text {
		return "", fmt.Errorf("the change could not be taken back again %v", notes)
	}
	return result, nil
}

// Uninject takes out what Inject has put in.
func Uninject(files []File) (clean []File, notes []Note) {
	for _, f := range files {
		s, err := parse(f.Text)
		if err != nil {
			clean = append(clean, f)
			notes = append(notes, Note{f.Name, "", err.Error(), true})
			continue
		}
		for _, o := range s.objects() {
			if value := at(o.node, "metadata", "annotations", Annotation); value != nil {
				if err := s.restore(value); err != nil {
					notes = append(notes, Note{f.Name, o.String(), err.Error(), true})
				}
			}
		}
		result := f
		if result.Text, err = apply(s.text, s.edits); err != nil {
			result = f
			notes = append(notes, Note{f.Name, "", err.Error(), true})
		}
		clean = append(clean, result)
	}
	return clean, notes
}

// manifestObject is an object of Kubernetes in a document, or in a List.
type manifestObject struct {
	kind, name string
	node       *yaml.Node
}

func (o manifestObject) String() string { return strings.ToLower(o.kind) + "/" + o.name }

func (s *source) objects() (all []manifestObject) {
	var add func(n *yaml.Node)
	add = func(n *yaml.Node) {
		kind := text(at(n, "kind"))
		if kind == "List" || strings.HasSuffix(kind, "List") && at(n, "items") != nil {
			for _, item := range items(at(n, "items")) {
				add(item)
			}
			return
		}
		if kind != "" {
			all = append(all, manifestObject{kind, text(at(n, "metadata", "name")), n})
		}
	}
	for _, d := range s.documents {
		add(d)
	}
	return all
}

// templates are the places of the pod's metadata and spec.
var templates = map[string][]string{
	"Pod": {}, "Deployment": {"spec", "template"}, "StatefulSet": {"spec", "template"}, "ReplicaSet": {"spec", "template"},
	"DaemonSet": {"spec", "template"}, "Job": {"spec", "template"}, "CronJob": {"spec", "jobTemplate", "spec", "template"},
}

// workload is what Services need to know of one that was injected.
type workload struct {
	labels   map[string]string
	userPort int
	names    []string // of that port
}

// inject puts the gate into an object if it has pods; said is what a reader
// should know.
func (s *source) inject(o manifestObject, options Options) (w *workload, said []string, err error) {
	path, ok := templates[o.kind]
	if !ok {
		if at(o.node, "spec", "template", "spec", "containers") != nil {
			return nil, nil, fmt.Errorf("objects of the kind %s are not rewritten", o.kind)
		}
		return nil, nil, nil
	}
	template := at(o.node, path...)
	p := &pod{source: s, options: options, spec: at(template, "spec"), name: o.name, first: len(s.edits)}
	if at(o.node, "metadata", "annotations", Annotation) != nil {
		return nil, nil, nil // it could not be taken out, and that was said
	}
	if err := p.inject(); err != nil {
		s.edits = s.edits[:p.first]
		return nil, nil, err
	}
	if err := s.annotate(o, p.first); err != nil {
		s.edits = s.edits[:p.first]
		return nil, nil, err
	}
	w = &workload{labels: map[string]string{}, userPort: p.userPort, names: p.userPortNames()}
	if labels := at(template, "metadata", "labels"); labels != nil {
		_ = labels.Decode(&w.labels)
	}
	return w, p.said, nil
}

// redirect points the ports of a Service that lead to an application with a gate
// at the gate.
func (s *source) redirect(o manifestObject, workloads []workload) (said []string, err error) {
	selector := map[string]string{}
	if n := at(o.node, "spec", "selector"); o.kind != "Service" || n == nil || n.Decode(&selector) != nil || len(selector) == 0 {
		return nil, nil
	}
	if at(o.node, "metadata", "annotations", Annotation) != nil {
		return nil, nil
	}
	first := len(s.edits)
	for _, w := range workloads {
		if !w.matches(selector) {
			continue
		}
		ports := at(o.node, "spec", "ports")
		if err := s.checkShared("spec.ports", ports); err != nil {
			return nil, err
		}
		for _, port := range items(ports) {
			if !w.isTarget(port) {
				if name := text(at(port, "targetPort")); name != portHTTP {
					said = append(said, fmt.Sprintf("port %s does not lead to the application, and stays", text(at(port, "port"))))
				}
				continue
			}
			if e := lookup(port, "targetPort"); e != nil && !e.merged && e.value.Kind == yaml.ScalarNode && s.shared[e.value] == "" && e.value.Anchor == "" {
				from := s.offset(e.value)
				s.replace(from, s.scalarEnd(e.value, isFlow(port)), portHTTPText(isFlow(port)))
			} else if e == nil && port.Kind == yaml.MappingNode && len(port.Content) > 0 {
				s.insertFirst(port, object("targetPort", portHTTP))
			} else {
				said = append(said, "a targetPort is an alias or anchor, and stays")
			}
		}
		break
	}
	if len(s.edits) == first {
		return said, nil
	}
	if err := s.annotate(o, first); err != nil {
		s.edits = s.edits[:first]
		return nil, err
	}
	return said, nil
}

func portHTTPText(inFlow bool) string {
	if inFlow {
		return quote(portHTTP)
	}
	return portHTTP
}

// scalarEnd is where a scalar on one line ends.
func (s *source) scalarEnd(n *yaml.Node, inFlow bool) int {
	from := s.offset(n)
	switch c := s.text[from]; {
	case c == '"' || c == '\'':
		return s.quoteEnd(from) + 1
	case inFlow:
		return s.flowEnd(from)
	}
	return from + len(n.Value)
}

func (w *workload) matches(selector map[string]string) bool {
	for name, value := range selector {
		if w.labels[name] != value {
			return false
		}
	}
	return true
}

// isTarget is true of a port of a Service that leads to the application.
func (w *workload) isTarget(port *yaml.Node) bool {
	target := at(port, "targetPort")
	if text(target) == "" {
		target = at(port, "port")
	}
	n, ok := integer(target)
	return ok && n == w.userPort || slices.Contains(w.names, text(target))
}

package manifest

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// File is a file with manifests.
type File struct {
	Name string
	Text string
}

// Note is a message about an object, usually why it was left unchanged.
type Note struct {
	File, Object string // Object is KIND/NAME, such as deployment/web; "" = the file
	Text         string
	Unchanged    bool // the object or the file was left unchanged
	// Failed means that traffic would fail or bypass the gate, or that an object with a
	// gate was left unchanged.
	Failed bool
	Hazard string // element of Hazards; Inject clears Failed if Options.Accept has it
}

func (n Note) String() string {
	prefix := n.File
	if n.Object != "" {
		prefix += ": " + n.Object
	}
	if n.Unchanged {
		return prefix + ": left unchanged: " + n.Text
	}
	return prefix + ": " + n.Text
}

// Hazards are the kinds of failures that Options.Accept can accept.
var Hazards = []string{"headless", "host-port", "network-policy", "services"}

// failure is an error for which noteOf sets Note.Failed.
type failure struct{ error }

func noteOf(file string, o manifestObject, err error) Note {
	return Note{File: file, Object: o.String(), Text: err.Error(), Unchanged: true, Failed: errors.As(err, new(failure))}
}

// Options configure the gate. Annotations of a workload override them.
type Options struct {
	Image       string
	Container   string // name of the container that serves requests; "" = pod.choose selects it
	UserPort    int    // port of the application; 0 = the port of the container
	Concurrency int    // 0 = unlimited
	Services    bool   // change Services and NetworkPolicies for the gate
	// LiveSettings mounts the pod's annotations into the gate at podInfoDir.
	LiveSettings bool
	Set          map[string]string // values of settings, by variable; see ParseAssignment
	Resources    map[string]string // quantities, by names such as requests.cpu; see ParseResources
	Accept       []string          // elements of Hazards
}

// Inject adds the gate to the workloads of all files. If a workload has a gate, Inject
// applies the options again and keeps the user's edits of that gate.
func Inject(files []File, o Options) (injected []File, notes []Note) {
	clean, notes, priors := uninject(files)
	passes := make([]*pass, len(clean))
	var workloads []workload
	for i, f := range clean {
		s, err := parse(f.Text)
		if err != nil {
			continue // uninject has reported the problem
		}
		passes[i] = &pass{source: s, file: f, options: o, priors: priors[i]}
		workloads = append(workloads, passes[i].workloads()...)
	}
	for i, f := range clean {
		p := passes[i]
		if p == nil {
			injected = append(injected, f)
			continue
		}
		p.traffic(workloads)
		result, err := p.checked()
		if err != nil {
			// Uninject could not restore this file from ordinary records. Retry with
			// verbatim records, which store the changed text itself.
			retry := &pass{source: &source{}, file: f, options: o, priors: priors[i]}
			if retry.source, err = parse(f.Text); err == nil {
				retry.verbatim = true
				retry.workloads()
				retry.traffic(workloads)
				result, err = retry.checked()
			}
		}
		notes = append(notes, p.notes...)
		if err != nil {
			result = files[i].Text
			notes = append(notes, Note{File: f.Name, Text: err.Error(), Unchanged: true})
		}
		injected = append(injected, File{f.Name, result})
	}
	for i := range notes {
		if slices.Contains(o.Accept, notes[i].Hazard) {
			notes[i].Failed = false
		}
	}
	return injected, notes
}

// pass is the state of the injection into one file.
type pass struct {
	*source
	file    File
	options Options
	priors  map[int]*prior
	notes   []Note
}

func (p *pass) note(o manifestObject, notes []Note, err error) {
	for _, n := range notes {
		n.File, n.Object = p.file.Name, o.String()
		p.notes = append(p.notes, n)
	}
	if err != nil {
		p.notes = append(p.notes, noteOf(p.file.Name, o, err))
	}
}

// workloads adds the gate to the workloads of the file.
func (p *pass) workloads() (all []workload) {
	for i, o := range p.objects() {
		w, notes, err := p.inject(o, p.options, p.priors[i])
		p.note(o, notes, err)
		if err == nil && w != nil {
			all = append(all, *w)
		}
	}
	return all
}

// traffic changes the Services and NetworkPolicies of the file.
func (p *pass) traffic(workloads []workload) {
	for _, o := range p.objects() {
		var notes []Note
		var err error
		switch o.kind {
		case "Service":
			notes, err = p.redirect(o, workloads, p.options.Services)
		case "NetworkPolicy":
			notes, err = p.admit(o, workloads, p.options.Services)
		}
		p.note(o, notes, err)
	}
}

// checked returns the text with all edits applied. It returns an error if Uninject would
// not restore the original text exactly.
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
		return "", fmt.Errorf("the change could not be undone: %v", notes)
	}
	return result, nil
}

// Uninject removes what Inject has added.
func Uninject(files []File) (clean []File, notes []Note) {
	clean, notes, _ = uninject(files)
	return clean, notes
}

// uninject does the work of Uninject. It also returns the removed gates: for each file, a
// map from the index of an object in the file to the gate that was removed from it.
func uninject(files []File) (clean []File, notes []Note, priors []map[int]*prior) {
	for _, f := range files {
		gates := map[int]*prior{}
		result, fileNotes, err := uninjectFile(f, gates)
		if err != nil {
			result, fileNotes = f.Text, append(fileNotes, Note{File: f.Name, Text: err.Error(), Unchanged: true})
			clear(gates)
		}
		clean, notes, priors = append(clean, File{f.Name, result}), append(notes, fileNotes...), append(priors, gates)
	}
	return clean, notes, priors
}

func uninjectFile(f File, gates map[int]*prior) (result string, notes []Note, err error) {
	s, err := parse(f.Text)
	if err != nil {
		return "", nil, err
	}
	objects := s.objects()
	for i, o := range objects {
		if value := valueAt(o.node, "metadata", "annotations", Annotation); value != nil {
			p, err := s.restore(o, value)
			if err != nil {
				notes = append(notes, Note{File: f.Name, Object: o.String(), Text: err.Error(), Unchanged: true, Failed: true})
			}
			if p != nil {
				gates[i] = p
			}
		}
	}
	if len(s.edits) == 0 {
		return f.Text, notes, nil
	}
	if result, err = apply(s.text, s.edits); err != nil {
		return "", notes, err
	}
	// The restored text comes from the annotation, which a user may have edited. Check
	// that the file is still valid YAML and has the same number of objects.
	if after, err := parse(result); err != nil || len(after.objects()) != len(objects) {
		return "", notes, fmt.Errorf("an annotation %s was edited: the file would not be valid YAML without the gate (%v)", Annotation, err)
	}
	return result, notes, nil
}

// manifestObject is a Kubernetes object: a document of the file, or an item of a List.
type manifestObject struct {
	kind, name string
	node       *yaml.Node
}

func (o manifestObject) String() string { return strings.ToLower(o.kind) + "/" + o.name }

func (s *source) objects() (all []manifestObject) {
	var add func(n *yaml.Node)
	add = func(n *yaml.Node) {
		kind := text(valueAt(n, "kind"))
		if kind == "List" || strings.HasSuffix(kind, "List") && valueAt(n, "items") != nil {
			for _, item := range items(valueAt(n, "items")) {
				add(item)
			}
			return
		}
		if kind != "" {
			all = append(all, manifestObject{kind, text(valueAt(n, "metadata", "name")), n})
		}
	}
	for _, d := range s.documents {
		add(d)
	}
	return all
}

// templates are the paths to the pod template, by kind of object.
var templates = map[string][]string{
	"Pod": {}, "Deployment": {"spec", "template"}, "StatefulSet": {"spec", "template"}, "ReplicaSet": {"spec", "template"},
	"DaemonSet": {"spec", "template"}, "Job": {"spec", "template"}, "CronJob": {"spec", "jobTemplate", "spec", "template"},
}

// workload is a workload with a gate, for changes of Services and NetworkPolicies.
type workload struct {
	namespace string
	labels    map[string]string
	userPort  int
	names     []string // names of userPort
	gatePort  int
}

// inject adds the gate to an object if it has pods.
func (s *source) inject(o manifestObject, options Options, previous *prior) (w *workload, notes []Note, err error) {
	path, ok := templates[o.kind]
	if !ok {
		if valueAt(o.node, "spec", "template", "spec", "containers") != nil {
			if o.isKnative() {
				return nil, nil, errors.New("the pods of this object get their queue-proxy from Knative; docs/knative.md describes how the gate replaces it")
			}
			return nil, nil, fmt.Errorf("objects of the kind %s are not rewritten", o.kind)
		}
		return nil, nil, nil
	}
	template := valueAt(o.node, path...)
	if valueAt(o.node, "metadata", "annotations", Annotation) != nil {
		// uninject could not remove the old gate and has added a note about it. Do not
		// add a second gate.
		return nil, nil, nil
	}
	merged, err := options.applied(valueAt(o.node, "metadata", "annotations"))
	if err != nil {
		return nil, nil, failure{err}
	}
	first := len(s.edits)
	p := &pod{source: s, options: merged, spec: valueAt(template, "spec"), name: o.name, prior: previous}
	if err := p.inject(); err != nil {
		s.edits = s.edits[:first]
		return nil, nil, err
	}
	p.record.Options, p.record.Port = &merged, p.userPort
	if err := s.annotate(o, first, &p.record); err != nil {
		s.edits = s.edits[:first]
		return nil, nil, err
	}
	w = &workload{namespace: o.namespace(), labels: map[string]string{}, userPort: p.userPort, names: p.userPortNames(), gatePort: p.port(8012)}
	if labels := valueAt(template, "metadata", "labels"); labels != nil {
		_ = labels.Decode(&w.labels)
	}
	return w, p.notes, nil
}

// isKnative reports whether o is a Service, Configuration or Revision of Knative.
func (o manifestObject) isKnative() bool {
	return strings.HasPrefix(text(valueAt(o.node, "apiVersion")), "serving.knative.dev/")
}

func (o manifestObject) namespace() string { return text(valueAt(o.node, "metadata", "namespace")) }

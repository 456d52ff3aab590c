package manifest

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// SettingPrefix is the prefix of annotations with settings of the gate.
const SettingPrefix = "queuegate.dev/"

// Setting is a live setting of the gate, named by its flag.
type Setting struct {
	Flag, Value string
	Remove      bool // remove the annotation
}

// ParseSetting parses FLAG=VALUE, which sets an annotation, or FLAG-, which removes it.
// The syntax is that of kubectl annotate.
func ParseSetting(text string) (s Setting, err error) {
	flag, value, hasValue := strings.Cut(text, "=")
	if !hasValue {
		flag, s.Remove = strings.CutSuffix(flag, "-")
	}
	s.Flag, s.Value = strings.TrimPrefix(flag, SettingPrefix), value
	switch {
	case !hasValue && !s.Remove:
		return s, fmt.Errorf("%q: want SETTING=VALUE, or SETTING- to remove it", text)
	case !slices.Contains(LiveSettings, s.Flag):
		return s, fmt.Errorf("%q: %q is not a setting that can change while the gate runs; these can: %s", text, s.Flag, strings.Join(LiveSettings, ", "))
	}
	return s, nil
}

// Argument returns s as an argument of kubectl annotate.
func (s Setting) Argument() string {
	if s.Remove {
		return SettingPrefix + s.Flag + "-"
	}
	return SettingPrefix + s.Flag + "=" + s.Value
}

// Set annotates the pod templates of all workloads and Knative Services with the
// settings.
func Set(files []File, settings []Setting) (changed []File, notes []Note) {
	for _, f := range files {
		result := f
		s, err := parse(f.Text)
		if err != nil {
			changed = append(changed, f)
			notes = append(notes, Note{File: f.Name, Text: err.Error(), Unchanged: true})
			continue
		}
		for _, o := range s.objects() {
			first := len(s.edits)
			if err := s.set(o, settings); err != nil {
				s.edits = s.edits[:first]
				notes = append(notes, Note{File: f.Name, Object: o.String(), Text: err.Error(), Unchanged: true})
			}
		}
		if result.Text, err = apply(s.text, s.edits); err != nil {
			result = f
			notes = append(notes, Note{File: f.Name, Text: err.Error(), Unchanged: true})
		}
		changed = append(changed, result)
	}
	return changed, notes
}

// set annotates the pod template of an object, if any.
func (s *source) set(o manifestObject, settings []Setting) error {
	path, ok := templates[o.kind]
	if o.kind == "Service" && strings.HasPrefix(text(valueAt(o.node, "apiVersion")), "serving.knative.dev/") {
		path, ok = []string{"spec", "template"}, true
	}
	if !ok {
		return nil
	}
	template := valueAt(o.node, path...)
	if template == nil || template.Kind != yaml.MappingNode || len(template.Content) == 0 {
		return errors.New("it has no pod")
	}
	if o.kind == "Pod" && valueAt(o.node, "metadata", "annotations", Annotation) != nil {
		return errors.New("it already has the gate: uninject it, set, and inject it again")
	}
	if err := s.checkShared("the pod", template); err != nil {
		return err
	}
	annotations := lookup(valueAt(template, "metadata"), "annotations")
	added := object()
	var removed []*entry
	for _, setting := range settings {
		key := SettingPrefix + setting.Flag
		var old *entry
		if annotations != nil {
			old = lookup(annotations.value, key)
		}
		switch {
		case old != nil && (old.merged || old.value.Kind != yaml.ScalarNode || s.shared[old.value] != ""):
			return fmt.Errorf("its annotation %s is an alias or used elsewhere", key)
		case old == nil && !setting.Remove:
			added.Content = append(added.Content, object(key, setting.Value).Content...)
		case old == nil:
		case setting.Remove:
			removed = append(removed, old)
		case text(old.value) != setting.Value:
			if err := s.remove(old, isFlow(annotations.value), object(key, setting.Value)); err != nil {
				return err
			}
		}
	}
	for i, old := range removed {
		var instead *yaml.Node
		switch {
		case i == 0 && len(added.Content) > 0:
			instead, added = added, object()
		case len(resolve(annotations.value).Content) == 2*len(removed):
			return errors.New("its annotations would be empty: remove them manually")
		}
		if err := s.remove(old, isFlow(annotations.value), instead); err != nil {
			return err
		}
	}
	if len(added.Content) == 0 {
		return nil
	}
	metadata := lookup(template, "metadata")
	switch {
	case metadata == nil:
		s.insertFirst(template, object("metadata", object("annotations", added)))
	case metadata.merged || metadata.value.Kind == yaml.AliasNode:
		return errors.New("its metadata are an alias")
	case isEmpty(metadata.value):
		s.fill(metadata, object("annotations", added), isFlow(template))
	case annotations == nil:
		s.insertFirst(metadata.value, object("annotations", added))
	case annotations.merged || annotations.value.Kind == yaml.AliasNode:
		return errors.New("its annotations are an alias")
	case isEmpty(annotations.value):
		s.fill(annotations, added, isFlow(metadata.value))
	default:
		s.insertFirst(annotations.value, added)
	}
	return nil
}

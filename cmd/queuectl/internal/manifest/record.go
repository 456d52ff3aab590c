package manifest

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Annotation is the annotation of a changed object. Its value is a record in JSON, or
// a verbatim record.
const Annotation = "queuegate.dev/injected"

// record has the parts of the original object that cannot be derived from the injected
// object.
type record struct {
	Options *applied `json:"with,omitempty"` // options of a workload's gate
	Port    int      `json:"port,omitempty"` // port of the application
	Sum     string   `json:"sum,omitempty"`  // checksum of the gate
	Grace   int      `json:"grace,omitempty"`
	Volume  string   `json:"volume,omitempty"`
	// Was has the original texts of removed or replaced values. The key of a probe is
	// CONTAINER/readinessProbe and so on. The keys "annotations", "initContainers" and
	// "volumes" are for the texts of empty values, such as {}. The key of a targetPort is
	// the Service's port, such as 80 or 53/UDP.
	Was map[string]string `json:"was,omitempty"`
	// Positions has the original position of each removed readinessProbe, by the same keys as
	// Was. A probe without a position was replaced by the key "lifecycle" that Inject
	// added, so Uninject puts the probe in the place of that key.
	Positions map[string]position `json:"at,omitempty"`
	// Ports are the ports that were added to a NetworkPolicy.
	Ports []int `json:"ports,omitempty"`
}

// applied are the options with which the gate of one workload was written.
type applied struct {
	Image        string            `json:"image"`
	Container    string            `json:"container,omitempty"`
	UserPort     int               `json:"userPort,omitempty"`
	LiveSettings bool              `json:"liveSettings,omitempty"`
	Set          map[string]string `json:"set,omitempty"`
	Resources    map[string]string `json:"resources,omitempty"`
}

// position is the place of a removed key in a mapping. The field AfterKey is the name of the
// preceding key, and Lines counts the lines (such as comments) between the value of that
// key and the place. If AfterKey is empty, the place is before all keys.
type position struct {
	AfterKey string `json:"after,omitempty"`
	Lines    int    `json:"lines,omitempty"`
}

// maxRecord is the maximum length of an annotation that decodeRecord accepts.
// Kubernetes limits all annotations of an object together to this length, so no valid
// record is longer.
const maxRecord = 1 << 18

func (r *record) encode() string {
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(r); err != nil {
		panic("BUG: " + err.Error())
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func decodeRecord(text string) (*record, error) {
	if len(text) > maxRecord {
		return nil, fmt.Errorf("it is longer than %d bytes", maxRecord)
	}
	r := new(record)
	return r, json.Unmarshal([]byte(text), r)
}

// was records the original text of a value.
func (r *record) was(key, text string) {
	if r.Was == nil {
		r.Was = map[string]string{}
	}
	r.Was[key] = text
}

// annotate adds the annotation with which Uninject can undo the edits of one object. The
// parameter first is the index in s.edits at which the edits of this object begin.
func (s *source) annotate(o manifestObject, first int, r *record) error {
	metadata := valueAt(o.node, "metadata")
	edits := s.edits[first:]
	index := len(s.edits)
	e := lookup(metadata, "annotations")
	if e != nil && isEmpty(e.value) {
		r.was("annotations", s.emptyText(e))
	}
	value := "M" // describe replaces this placeholder
	if !s.verbatim {
		value = r.encode()
	}
	pair := object(Annotation, value)
	switch {
	case metadata == nil || metadata.Kind != yaml.MappingNode || len(metadata.Content) == 0:
		return errors.New("metadata: is empty")
	case e == nil:
		s.insertFirst(metadata, object("annotations", pair))
	case e.merged || e.value.Kind == yaml.AliasNode:
		return errors.New("metadata.annotations: is an alias")
	case isEmpty(e.value):
		s.fill(e, pair, isFlow(metadata))
	case e.value.Kind != yaml.MappingNode:
		return errors.New("metadata.annotations: is not a mapping")
	default:
		s.insertFirst(e.value, pair)
	}
	if err := s.checkShared("metadata", metadata); err != nil {
		return err
	}
	if s.verbatim {
		a := &s.edits[index]
		before, after, _ := cutValue(a.text)
		a.text = before + s.describe(o, edits, a) + after
	}
	return nil
}

// emptyText returns the text of an empty value: {}, [], null, ~ or no text.
func (s *source) emptyText(e *entry) string {
	from := s.offset(e.value)
	switch {
	case isFlow(e.value):
		return s.text[from:s.flowEnd(from)]
	case strings.HasPrefix(s.text[from:], "~") || strings.HasPrefix(strings.ToLower(s.text[from:]), "null"):
		return s.text[from : from+len(e.value.Value)]
	}
	return ""
}

// textOf returns the text of a key and its value without indentation.
func (s *source) textOf(e *entry, inFlow bool) string {
	from := s.offset(e.key)
	text := s.text[from:s.end(e.key, e.value, inFlow)]
	if inFlow {
		return text
	}
	return dedent(text, s.indent(from))
}

// dedent removes indent from the beginning of all lines except the first. It also
// replaces CRLF by LF.
func dedent(text, indent string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\n"+indent, "\n")
}

// indented is the inverse of dedent.
func (s *source) indented(text, indent string) string {
	lines := strings.Split(text, "\n")
	for i := range lines[1:] {
		if lines[i+1] != "" {
			lines[i+1] = indent + lines[i+1]
		}
	}
	return strings.Join(lines, s.eol)
}

// rendered converts a recorded text, which comes from textOf, to the style and the
// indentation of the place where the text is restored. The style may differ from the
// recorded one, because a formatter may have changed the file.
func (s *source) rendered(text string, inFlow bool, indent string) (string, error) {
	if strings.HasPrefix(text, `"`) { // JSON has quotes
		if inFlow {
			return text, nil
		}
		text = "{" + text + "}"
	} else if !inFlow {
		return s.indented(text, indent), nil
	}
	parsed, err := parse(text)
	if err != nil || len(parsed.documents) != 1 || parsed.documents[0].Kind != yaml.MappingNode {
		if inFlow {
			// The text cannot be parsed outside its file, for example because it has an
			// alias. Assume that the text already has flow style, and do not convert it.
			return text, nil
		}
		return "", fmt.Errorf("the annotation %s has text that is not YAML", Annotation)
	}
	if inFlow {
		return strings.TrimSuffix(strings.TrimPrefix(flow(parsed.documents[0]), "{"), "}"), nil
	}
	return s.block(plainStyle(parsed.documents[0]), indent), nil
}

// plainStyle returns a copy of a node without styles, aliases and comments.
func plainStyle(n *yaml.Node) *yaml.Node {
	c := deepCopy(n)
	var clear func(*yaml.Node)
	clear = func(n *yaml.Node) {
		n.Style = 0
		for _, child := range n.Content {
			clear(child)
		}
	}
	clear(c)
	return c
}

// computed returns the text of a key and its value in block style, as Uninject generates
// it for a removed key. Inject records the original text only if it differs from this
// text.
func computed(key string, value *yaml.Node) string {
	return (&source{eol: "\n"}).block(object(key, plainStyle(value)), "")
}

// prior is a gate that was removed from a workload.
type prior struct {
	options applied
	port    int
	sum     string
	gate    *yaml.Node
	text    string // text of the gate without indentation; "" = not reused
}

// restore adds the edits that undo an object's changes.
func (s *source) restore(o manifestObject, value *yaml.Node) (*prior, error) {
	if !strings.HasPrefix(value.Value, "{") {
		return nil, s.restoreVerbatim(value)
	}
	r, err := decodeRecord(value.Value)
	if err != nil {
		return nil, fmt.Errorf("line %d: the annotation %s cannot be read: %w", value.Line, Annotation, err)
	}
	first := len(s.edits)
	p, err := s.undo(o, r)
	if err == nil {
		err = s.removeChild(valueAt(o.node, "metadata"), "annotations", Annotation, r)
	}
	if err != nil {
		s.edits = s.edits[:first]
		return nil, err
	}
	return p, nil
}

func (s *source) undo(o manifestObject, r *record) (*prior, error) {
	switch o.kind {
	case "Service":
		return nil, s.undoService(o, r)
	case "NetworkPolicy":
		return nil, s.undoPolicy(o, r)
	}
	path, ok := templates[o.kind]
	if !ok {
		return nil, nil
	}
	return s.undoPod(valueAt(o.node, append(slices.Clone(path), "spec")...), r)
}

// removeChild removes parent[name][key]. If this is the only key of the mapping
// parent[name], the mapping is removed too. But if the mapping was originally empty, and
// the record has its text, such as {}, removeChild restores that text instead.
func (s *source) removeChild(parent *yaml.Node, name, key string, r *record) error {
	outer := lookup(parent, name)
	if outer == nil || outer.merged || outer.value.Kind == yaml.AliasNode {
		return fmt.Errorf("%s: is an alias", name)
	}
	e := lookup(outer.value, key)
	if e == nil || e.merged {
		return fmt.Errorf("%s: comes from a merge key (<<)", name)
	}
	if err := s.checkShared(name, e.value); err != nil {
		return err
	}
	if len(outer.value.Content) > 2 {
		return s.remove(e, isFlow(outer.value), nil)
	}
	return s.removeAll(outer, isFlow(parent), r)
}

// removeAll removes a key, or restores its original empty value.
func (s *source) removeAll(e *entry, inFlow bool, r *record) error {
	text, ok := r.Was[e.key.Value]
	if !ok {
		return s.remove(e, inFlow, nil)
	}
	from := s.offset(e.value)
	if text == "" || !isFlow(e.value) {
		from = s.colon(e.key) + 1
		if text != "" {
			text = " " + text
		}
	}
	s.replace(from, s.end(e.key, e.value, inFlow), text)
	return nil
}

// colon returns the offset of the colon after a key.
func (s *source) colon(key *yaml.Node) int {
	at := s.offset(key) + len(key.Value)
	for at < len(s.text) && s.text[at] != ':' { // skip quotes
		at++
	}
	return at
}

// undoPod undoes the injection into a pod spec.
func (s *source) undoPod(spec *yaml.Node, r *record) (*prior, error) {
	list := lookup(spec, "initContainers")
	p := &prior{port: r.Port, sum: r.Sum}
	if r.Options != nil {
		p.options = *r.Options
	}
	var env *yaml.Node
	if list != nil {
		var err error
		if p.gate, err = s.removeItem(spec, list, GateName, r); err != nil {
			return nil, err
		}
		if p.gate != nil {
			env = valueAt(p.gate, "env")
			if !isFlow(p.gate) {
				p.text = s.itemText(p.gate)
			}
		}
	}
	if r.Volume != "" {
		if volumes := lookup(spec, "volumes"); volumes != nil {
			if _, err := s.removeItem(spec, volumes, r.Volume, r); err != nil {
				return nil, err
			}
		}
	}
	if e := lookup(spec, "terminationGracePeriodSeconds"); e != nil && !e.merged && r.Grace > 0 {
		if n, ok := integer(e.value); ok && n == r.Grace && s.shared[e.value] == "" {
			if err := s.remove(e, isFlow(spec), nil); err != nil {
				return nil, err
			}
		}
	}
	moved, probers := movedProbes(env)
	for _, c := range items(valueAt(spec, "containers")) {
		if err := s.undoContainer(c, r, moved, probers); err != nil {
			return nil, fmt.Errorf("container %s: %w", text(valueAt(c, "name")), err)
		}
	}
	return p, nil
}

// movedProbes returns the probes that Inject has moved into the environment of the gate.
// The keys of readiness are names of containers. The map probers has the liveness and
// startup probes; its keys are the paths at which the kubelet now probes the gate.
func movedProbes(env *yaml.Node) (readiness, probers map[string]*yaml.Node) {
	value := func(name string) string {
		for _, v := range items(env) {
			if text(valueAt(v, "name")) == name {
				return text(valueAt(v, "value"))
			}
		}
		return ""
	}
	parsed := func(text string) *yaml.Node {
		var n yaml.Node
		// JSON has no aliases, so the text cannot expand.
		if !json.Valid([]byte(text)) || yaml.Unmarshal([]byte(text), &n) != nil || len(n.Content) != 1 {
			return nil
		}
		return n.Content[0]
	}
	readiness, probers = map[string]*yaml.Node{}, map[string]*yaml.Node{}
	if probe := parsed(value("SERVING_READINESS_PROBE")); probe != nil {
		all := []*yaml.Node{probe}
		if probe.Kind == yaml.SequenceNode {
			all = probe.Content
		}
		for i, name := range strings.Split(value("CONTAINER_NAMES"), ",") {
			if i < len(all) && all[i].Kind == yaml.MappingNode {
				readiness[name] = all[i]
			}
		}
	}
	if all := parsed(value("KUBE_APP_PROBERS")); all != nil && all.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(all.Content); i += 2 {
			probers[all.Content[i].Value] = all.Content[i+1]
		}
	}
	return readiness, probers
}

// undoContainer restores the probes of a container and removes its preStop hook.
func (s *source) undoContainer(c *yaml.Node, r *record, moved, probers map[string]*yaml.Node) error {
	name := text(valueAt(c, "name"))
	probe, err := s.originalText(r, name+"/readinessProbe", "readinessProbe", take(moved, name))
	if err != nil {
		return err
	}
	if lookup(c, "readinessProbe") != nil {
		probe = "" // the user has added a new probe, which replaces the original one
	}
	pos, elsewhere := r.Positions[name+"/readinessProbe"]
	hook := lookup(c, "lifecycle")
	if hook != nil && (hook.merged || !isOurHook(valueAt(hook.value, "preStop"))) {
		hook = nil
	}
	var inFlow = isFlow(c)
	indent := ""
	if len(c.Content) > 0 {
		indent = s.indent(s.offset(c.Content[0]))
	}
	if probe != "" {
		if probe, err = s.rendered(probe, inFlow, indent); err != nil {
			return err
		}
	}
	if hook != nil {
		if err := s.checkShared("lifecycle", hook.value); err != nil {
			return err
		}
		switch {
		case len(hook.value.Content) > 2:
			if err := s.remove(lookup(hook.value, "preStop"), isFlow(hook.value), nil); err != nil {
				return err
			}
		case probe != "" && !elsewhere:
			s.replace(s.offset(hook.key), s.end(hook.key, hook.value, inFlow), probe)
			probe = ""
		default:
			if err := s.remove(hook, inFlow, nil); err != nil {
				return err
			}
		}
	}
	if probe != "" {
		if err := s.checkShared("the container", c); err != nil {
			return err
		}
		s.insertAt(c, pos, probe)
	}
	for _, kind := range probeKinds {
		e := lookup(c, kind.key)
		path := "/app-health/" + name + "/" + kind.path
		get := lookup(valueOf(e), "httpGet")
		if get == nil || get.merged || text(valueAt(get.value, "path")) != path {
			continue
		}
		if err := s.checkShared(kind.key, e.value); err != nil {
			return err
		}
		if original, ok := r.Was[name+"/"+kind.key+" whole"]; ok && s.hasAnchors(original) {
			delete(r.Was, name+"/"+kind.key+" whole")
			text, err := s.rendered(original, inFlow, indent)
			if err != nil {
				return err
			}
			s.replace(s.offset(e.key), s.end(e.key, e.value, inFlow), text)
			continue
		}
		handler, err := handlerOf(take(probers, path))
		var value *yaml.Node
		key := ""
		if err == nil {
			key, value = handler.key.Value, handler.value
		}
		original, err := s.originalText(r, name+"/"+kind.key, key, value)
		if err != nil {
			return err
		}
		if original == "" {
			return fmt.Errorf("its %s is not in KUBE_APP_PROBERS any more", kind.key)
		}
		flowInside := isFlow(e.value)
		if original, err = s.rendered(original, flowInside, s.indent(s.offset(get.key))); err != nil {
			return err
		}
		s.replace(s.offset(get.key), s.end(get.key, get.value, flowInside), original)
	}
	return nil
}

func valueOf(e *entry) *yaml.Node {
	if e == nil {
		return nil
	}
	return e.value
}

// take removes an element from a map and returns it. Each recorded text is used only
// once, because many containers may have the same name.
func take[T any](m map[string]T, key string) T {
	v := m[key]
	delete(m, key)
	return v
}

// originalText returns the original text of a key and its value. This is the text in
// r.Was[name], which originalText removes from r. If r has no such text that can be
// restored, the result is computed(key, value), or "" if value is nil.
func (s *source) originalText(r *record, name, key string, value *yaml.Node) (string, error) {
	if text, ok := r.Was[name]; ok && s.hasAnchors(text) {
		delete(r.Was, name)
		return text, nil
	}
	if value == nil {
		return "", nil
	}
	return computed(key, value), nil
}

// alias matches a use of an anchor.
var alias = regexp.MustCompile(`(?:^|[\s\[{,:])\*([^\s\[\]{},]+)`)

// hasAnchors reports whether the file has an anchor for each alias in the recorded text.
// A formatter may have removed the anchors; then the text cannot be restored.
func (s *source) hasAnchors(text string) bool {
	if _, err := parse(text); err == nil {
		return true
	}
	for _, match := range alias.FindAllStringSubmatch(text, -1) {
		if !strings.Contains(s.text, "&"+match[1]) {
			return false
		}
	}
	return true
}

// isOurHook reports whether inject has added a preStop hook.
func isOurHook(hook *yaml.Node) bool { return text(valueAt(hook, "httpGet", "path")) == waitForDrain }

// insertAt inserts a key and its value into a mapping, at the given position. The
// parameter pair is the text of the key and the value.
func (s *source) insertAt(mapping *yaml.Node, pos position, pair string) {
	first := mapping.Content[0]
	previous := lookup(mapping, pos.AfterKey)
	if pos.AfterKey == "" || previous != nil && previous.merged {
		previous = nil
	}
	switch {
	case isFlow(mapping) && previous != nil:
		at := s.flowEnd(s.offset(previous.value))
		s.replace(at, at, ","+s.blankBefore(previous.key)+pair)
	case isFlow(mapping):
		at := s.offset(first)
		s.replace(at, at, pair+","+s.blankBefore(first))
	case previous == nil:
		at := s.offset(first)
		s.replace(at, at, pair+s.eol+s.indent(at))
	default:
		line := s.lineOf(s.end(previous.key, previous.value, false)) + 1 + min(max(0, pos.Lines), len(s.lines))
		indent := s.indent(s.offset(previous.key))
		if line >= len(s.lines) {
			text := s.eol + indent + pair
			if strings.HasSuffix(s.text, "\n") {
				text = indent + pair + s.eol
			}
			s.replace(len(s.text), len(s.text), text)
			return
		}
		s.replace(s.lines[line], s.lines[line], indent+pair+s.eol)
	}
}

// blankBefore returns the blanks before a key in flow style, or one space.
func (s *source) blankBefore(key *yaml.Node) string {
	to := s.offset(key)
	from := len(strings.TrimRight(s.text[:to], " \t\r\n"))
	if from == to || s.text[from-1] == '{' && !strings.Contains(s.text[from:to], "\n") {
		return " "
	}
	return s.text[from:to]
}

// positionOf returns the position of a key in its mapping.
func (s *source) positionOf(e *entry, inFlow bool) position {
	if e.previous == nil || e.previous.key.Tag == "!!merge" {
		return position{}
	}
	p := position{AfterKey: e.previous.key.Value}
	if !inFlow {
		p.Lines = s.lineOf(s.offset(e.key)) - s.lineOf(s.end(e.previous.key, e.previous.value, false)) - 1
	}
	return p
}

// removeItem removes the item with this name from list, a sequence in parent. It returns
// the item, or nil if list has no such item. If list has no other item, its key is
// removed too. But if r has the text of an originally empty list, such as [], removeItem
// restores that text instead.
func (s *source) removeItem(parent *yaml.Node, list *entry, name string, r *record) (*yaml.Node, error) {
	if list.value.Kind != yaml.SequenceNode {
		return nil, nil
	}
	i := slices.IndexFunc(list.value.Content, func(n *yaml.Node) bool { return text(valueAt(n, "name")) == name })
	if i < 0 {
		return nil, nil
	}
	item := list.value.Content[i]
	if err := s.checkShared(list.key.Value, item); err != nil {
		return nil, err
	}
	if list.merged || item.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("%s: is an alias", list.key.Value)
	}
	if err := s.checkAnchors(item); err != nil {
		return nil, err
	}
	if len(list.value.Content) == 1 {
		return item, s.removeAll(list, isFlow(parent), r)
	}
	return item, s.removeElement(list.value, i)
}

// checkAnchors returns an error if an alias outside n refers to a node below n.
func (s *source) checkAnchors(n *yaml.Node) error {
	if err := s.checkShared("container", n); err != nil {
		return err
	}
	for _, child := range n.Content {
		if err := s.checkAnchors(child); err != nil {
			return err
		}
	}
	return nil
}

// removeElement removes element i of a sequence with at least two elements.
func (s *source) removeElement(sequence *yaml.Node, i int) error {
	if isFlow(sequence) {
		if i+1 < len(sequence.Content) {
			s.replace(s.offset(sequence.Content[i]), s.offset(sequence.Content[i+1]), "")
		} else {
			s.replace(s.flowEnd(s.offset(sequence.Content[i-1])), s.flowEnd(s.offset(sequence.Content[i])), "")
		}
		return nil
	}
	dash, err := s.dash(sequence.Content[i])
	if err != nil {
		return err
	}
	start := s.lines[s.lineOf(dash)]
	last := s.itemEnd(sequence.Content[i], dash-start)
	to := len(s.text)
	if last+1 < len(s.lines) {
		to = s.lines[last+1]
	}
	if strings.TrimSpace(s.text[start:dash]) == "" {
		s.replace(start, to, "")
		return nil
	}
	if i+1 == len(sequence.Content) {
		return errors.New("a sequence within the line of another")
	}
	next, err := s.dash(sequence.Content[i+1])
	if err != nil {
		return err
	}
	s.replace(dash, next, "")
	return nil
}

// itemEnd returns the index of the last line of an item in a block sequence. The
// parameter column is the number of bytes before the item's dash in its line.
func (s *source) itemEnd(item *yaml.Node, column int) int {
	last := item.Line - 1
	for i := item.Line; i < len(s.lines); i++ {
		content := strings.TrimLeft(s.line(i), " ")
		depth := len(s.line(i)) - len(content)
		if strings.TrimSpace(content) == "" || depth <= column && content[0] == '#' {
			continue
		}
		if depth <= column {
			break
		}
		last = i
	}
	return last
}

// itemText returns the text of an item of a block sequence, without the dash and the
// indentation. The result is "" if these cannot be removed, for example because a later
// line has less indentation than the first.
func (s *source) itemText(item *yaml.Node) string {
	from := s.offset(item)
	indent := s.indent(from)
	dash, err := s.dash(item)
	if err != nil {
		return ""
	}
	last := s.itemEnd(item, dash-s.lines[s.lineOf(dash)])
	text := s.text[from:s.lineEnd(last)]
	for i, line := range strings.Split(text, "\n") {
		if i > 0 && strings.TrimSpace(line) != "" && !strings.HasPrefix(line, indent) {
			return ""
		}
	}
	return dedent(text, indent)
}

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }

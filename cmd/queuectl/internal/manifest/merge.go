package manifest

import (
	"hash/crc32"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// placeholder is an element of initContainers that stands for the gate's container. Later
// keepText replaces it by the text of the previous gate.
const placeholder = "queuegate.dev/placeholder"

// merged applies the user's edits of the previous gate to the newly generated gate (the
// parameter ours), and returns the result. To find the edits, it compares the gate in the
// file with the gate that inject wrote (baseGate). If the result equals the gate in the
// file and the text of that gate can be reused, merged returns the placeholder instead.
// Later keepText replaces the placeholder by that text.
func (p *pod) merged(ours *yaml.Node, inFlow bool) *yaml.Node {
	p.record.Sum = checksum(ours)
	if p.prior == nil || p.prior.gate == nil {
		return ours
	}
	theirs := p.prior.gate
	if checksum(theirs) == p.prior.sum {
		p.prior.text = ""
		return ours
	}
	base := p.baseGate()
	if base == nil {
		base = ours
	}
	m := merger{p: p}
	gate := m.merge("", base, theirs, ours)
	if canonical(gate) == canonical(theirs) && p.prior.text != "" && !inFlow {
		return &yaml.Node{Kind: yaml.ScalarNode, Value: placeholder}
	}
	p.prior.text = ""
	return gate
}

// baseGate returns the gate that inject would write now with the recorded options. It
// returns nil if that injection fails.
func (p *pod) baseGate() *yaml.Node {
	scratch := *p.source
	b := &pod{source: &scratch, options: p.prior.options, spec: p.spec, name: p.name}
	b.edits = nil
	if p.prior.port != 0 {
		// Use the application's port at the previous injection. The user may have changed
		// the port in the manifest since then.
		b.options.UserPort = p.prior.port
	}
	if b.inject() != nil {
		return nil
	}
	return b.gate()
}

// keepText replaces the placeholder by the text of the previous gate, so that the gate
// keeps its comments and style. The parameter first is the index in p.edits at which the
// search for the placeholder begins.
func (p *pod) keepText(first int) {
	if p.prior == nil || p.prior.text == "" {
		return
	}
	for i := range p.edits[min(first, len(p.edits)):] {
		e := &p.edits[first+i]
		before, after, found := strings.Cut(e.text, placeholder)
		if !found {
			continue
		}
		indent := before[strings.LastIndexByte(before, '\n')+1:]
		if !strings.Contains(before, "\n") {
			indent = p.indent(e.from) + before
		}
		indent = strings.Repeat(" ", len(indent))
		e.text = before + p.indented(p.prior.text, indent) + after
	}
}

// checksum shows whether a user has edited a gate.
func checksum(gate *yaml.Node) string {
	return strconv.FormatUint(uint64(crc32.ChecksumIEEE([]byte(canonical(gate)))), 16)
}

// canonical returns the JSON of a node with sorted keys.
func canonical(n *yaml.Node) string {
	sorted := deepCopy(n)
	var sort func(*yaml.Node)
	sort = func(n *yaml.Node) {
		for _, child := range n.Content {
			sort(child)
		}
		if n.Kind != yaml.MappingNode {
			return
		}
		pairs := slices.Collect(slices.Chunk(n.Content, 2))
		slices.SortStableFunc(pairs, func(a, b []*yaml.Node) int { return strings.Compare(a[0].Value, b[0].Value) })
		n.Content = slices.Concat(pairs...)
	}
	sort(sorted)
	return compact(sorted)
}

// merger performs a three-way merge of the changes from base to theirs and from base to
// ours. In a conflict, ours takes precedence.
type merger struct{ p *pod }

func (m *merger) merge(path string, base, theirs, ours *yaml.Node) *yaml.Node {
	base, theirs, ours = resolve(base), resolve(theirs), resolve(ours)
	switch b, t, o := canonicalOf(base), canonicalOf(theirs), canonicalOf(ours); {
	case b == o || t == o:
		return theirs
	case b == t:
		return ours
	}
	isMapping := func(n *yaml.Node) bool { return n != nil && n.Kind == yaml.MappingNode }
	switch {
	case isMapping(theirs) && isMapping(ours) && (base == nil || isMapping(base)):
		return m.mappings(path, base, theirs, ours)
	case isNamed(theirs) && isNamed(ours) && (base == nil || isNamed(base)):
		return m.lists(path, base, theirs, ours)
	case theirs != nil && ours != nil && ours.Kind == yaml.ScalarNode:
		m.p.say("the gate's %s was edited to %s and is now %s, as set by the flags", strings.TrimPrefix(path, "."), compact(theirs), compact(ours))
	}
	return ours
}

func canonicalOf(n *yaml.Node) string {
	if n == nil {
		return ""
	}
	return canonical(n)
}

func (m *merger) mappings(path string, base, theirs, ours *yaml.Node) *yaml.Node {
	merged := *theirs
	merged.Content = nil
	for i := 0; i+1 < len(theirs.Content); i += 2 {
		key := theirs.Content[i]
		if value := m.merge(path+"."+key.Value, valueAt(base, key.Value), theirs.Content[i+1], valueAt(ours, key.Value)); value != nil {
			merged.Content = append(merged.Content, key, value)
		}
	}
	for i := 0; i+1 < len(ours.Content); i += 2 {
		key := ours.Content[i]
		if lookup(theirs, key.Value) == nil && canonicalOf(valueAt(base, key.Value)) != canonical(ours.Content[i+1]) {
			merged.Content = append(merged.Content, key, ours.Content[i+1])
		}
	}
	return &merged
}

// isNamed reports whether the items of a list have names that identify them.
func isNamed(n *yaml.Node) bool {
	return n != nil && n.Kind == yaml.SequenceNode && len(n.Content) > 0 &&
		!slices.ContainsFunc(n.Content, func(item *yaml.Node) bool { return text(valueAt(item, "name")) == "" })
}

func named(list *yaml.Node, name string) *yaml.Node {
	for _, item := range items(list) {
		if text(valueAt(item, "name")) == name {
			return item
		}
	}
	return nil
}

func (m *merger) lists(path string, base, theirs, ours *yaml.Node) *yaml.Node {
	merged := *theirs
	merged.Content = nil
	for _, item := range theirs.Content {
		name := text(valueAt(item, "name"))
		if value := m.merge(path+"["+name+"]", named(base, name), item, named(ours, name)); value != nil {
			merged.Content = append(merged.Content, value)
		}
	}
	for _, item := range ours.Content {
		name := text(valueAt(item, "name"))
		if named(theirs, name) == nil && canonicalOf(named(base, name)) != canonical(item) {
			merged.Content = append(merged.Content, item)
		}
	}
	return &merged
}

package manifest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

func quote(text string) string {
	quoted, _ := json.Marshal(text)
	return string(quoted)
}

// checkShared returns an error if an alias refers to n, because an edit would change
// the alias too.
func (s *source) checkShared(description string, n *yaml.Node) error {
	if anchor, ok := s.shared[n]; ok {
		return fmt.Errorf("%s: is used elsewhere through the anchor &%s", description, anchor)
	}
	return nil
}

// insertFirst inserts keys before the first key of a nonempty mapping.
func (s *source) insertFirst(mapping, keys *yaml.Node) {
	s.insertBefore(mapping.Content[0], isFlow(mapping), keys)
}

// insertBefore inserts keys before a key of their mapping.
func (s *source) insertBefore(key *yaml.Node, inFlow bool, keys *yaml.Node) {
	at := s.offset(key)
	if inFlow {
		s.replace(at, at, strings.TrimSuffix(strings.TrimPrefix(flow(keys), "{"), "}")+", ")
		return
	}
	indent := s.indent(at)
	s.replace(at, at, s.block(keys, indent)+s.eol+indent)
}

// prepend inserts an element before the first element of a nonempty sequence.
func (s *source) prepend(sequence, element *yaml.Node) error {
	first := sequence.Content[0]
	if isFlow(sequence) {
		at := s.offset(first)
		s.replace(at, at, flow(element)+", ")
		return nil
	}
	at, err := s.dash(first)
	if err != nil {
		return err
	}
	indent := s.indent(at)
	list := &yaml.Node{Kind: yaml.SequenceNode, Content: []*yaml.Node{element}}
	s.replace(at, at, s.block(list, indent)+s.eol+indent)
	return nil
}

// dash returns the offset of the dash before an element of a sequence in block style.
func (s *source) dash(element *yaml.Node) (int, error) {
	// Usually the dash is on the first line of the element. If a comment follows the
	// dash, the element begins on a later line, so search the lines above as well.
	for i := element.Line - 1; i >= 0; i-- {
		line := s.line(i)
		if content := strings.TrimLeft(line, " "); strings.HasPrefix(content, "-") {
			return s.lines[i] + len(line) - len(content), nil
		}
		// The line of the element has other text before its dash. The sequence then
		// begins within a line of its parent and cannot be edited line by line.
		if at := strings.LastIndex(line, "- "); i == element.Line-1 && at >= 0 {
			return 0, errors.New("a sequence within the line of another")
		}
	}
	return 0, errors.New("a sequence without a dash")
}

// fill sets the value of a key whose value is absent, or an empty mapping or sequence.
func (s *source) fill(e *entry, value *yaml.Node, inFlow bool) {
	if text := s.text[s.offset(e.value):]; isFlow(e.value) || text != "" && (text[0] == '~' || strings.HasPrefix(strings.ToLower(text), "null")) {
		from := s.offset(e.value)
		to := s.flowEnd(from)
		if !isFlow(e.value) {
			to = from + len(e.value.Value)
		}
		s.replace(from, to, flow(value))
		return
	}
	at := s.colon(e.key)
	s.replace(at+1, at+1, " "+flow(value))
}

// isEmpty reports whether a value has no content.
func isEmpty(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.Tag == "!!null" || n.Kind != yaml.ScalarNode && n.Kind != yaml.AliasNode && len(n.Content) == 0
}

// remove removes a key and its value from its mapping. The last parameter is nil, or a
// mapping whose keys and values take the place of the removed key.
func (s *source) remove(e *entry, inFlow bool, instead *yaml.Node) error {
	from, to := s.offset(e.key), s.end(e.key, e.value, inFlow)
	if instead != nil {
		if inFlow {
			s.replace(from, to, strings.TrimSuffix(strings.TrimPrefix(flow(instead), "{"), "}"))
		} else {
			s.replace(from, to, s.block(instead, s.indent(from)))
		}
		return nil
	}
	start := s.lines[s.lineOf(from)]
	switch {
	case inFlow && e.next != nil:
		s.replace(from, s.offset(e.next), "")
	case inFlow && e.previous != nil:
		s.replace(s.flowEnd(s.offset(e.previous.value)), to, "")
	case !inFlow && strings.TrimSpace(s.text[start:from]) == "":
		if line := s.lineOf(to); line+1 < len(s.lines) {
			to = s.lines[line+1]
		}
		s.replace(start, to, "")
	case !inFlow && e.next != nil: // the first key after a dash
		s.replace(from, s.offset(e.next), "")
	default:
		return errors.New("its mapping would be empty")
	}
	return nil
}

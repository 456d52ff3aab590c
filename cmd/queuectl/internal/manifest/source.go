package manifest

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// source is the text of a file, with its parsed documents and pending edits.
type source struct {
	text      string
	lines     []int // offset of the start of each line
	eol       string
	documents []*yaml.Node
	// shared has the nodes that occur more than once, because an alias refers to the node
	// or to a node above it. The value is the name of the anchor.
	shared   map[*yaml.Node]string
	edits    []edit
	verbatim bool // write verbatim records into annotations
}

// edit replaces text[from:to] by another text.
type edit struct {
	from, to int
	text     string
}

func parse(text string) (*source, error) {
	s := &source{text: text, lines: lineStarts(text), eol: "\n"}
	if i := strings.IndexByte(text, '\n'); i > 0 && text[i-1] == '\r' {
		s.eol = "\r\n"
	}
	decoder := yaml.NewDecoder(strings.NewReader(text))
	var aliases aliasBudget
	for {
		var document yaml.Node
		switch err := decoder.Decode(&document); {
		case errors.Is(err, io.EOF):
			s.findShared()
			return s, nil
		case err != nil:
			return nil, fmt.Errorf("this is not YAML: %s", strings.TrimPrefix(err.Error(), "yaml: "))
		}
		if _, err := aliases.count(&document); err != nil {
			return nil, err
		}
		if len(document.Content) == 1 {
			s.documents = append(s.documents, document.Content[0])
		}
	}
}

// lineStarts returns the offsets at which lines start. Lines end as in YAML 1.1.
func lineStarts(text string) []int {
	starts := []int{0}
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		i += n
		switch {
		case r == '\r' && i < len(text) && text[i] == '\n':
		case r == '\n' || r == '\r' || r == 0x85 || r == 0x2028 || r == 0x2029:
			starts = append(starts, i)
		}
	}
	return starts
}

// offset returns the byte offset at which a node begins. An anchor or a tag before the
// value belongs to the node.
func (s *source) offset(n *yaml.Node) int {
	at := s.lines[n.Line-1]
	if n.Line == 1 {
		at += len(s.text) - len(strings.TrimPrefix(s.text, "\ufeff"))
	}
	for range n.Column - 1 {
		_, size := utf8.DecodeRuneInString(s.text[at:])
		at += size
	}
	return at
}

// lineOf returns the index of the line that contains an offset. The first line is 0.
func (s *source) lineOf(offset int) int {
	i, found := slices.BinarySearch(s.lines, offset)
	if found {
		return i
	}
	return i - 1
}

// line returns the text of a line without its line ending.
func (s *source) line(i int) string {
	end := len(s.text)
	if i+1 < len(s.lines) {
		end = s.lines[i+1]
	}
	return strings.TrimRight(s.text[s.lines[i]:end], "\r\n")
}

// indent returns one space for each column before an offset.
func (s *source) indent(offset int) string {
	return strings.Repeat(" ", utf8.RuneCountInString(s.text[s.lines[s.lineOf(offset)]:offset]))
}

func (s *source) replace(from, to int, text string) {
	s.edits = append(s.edits, edit{from, to, text})
}

// findShared sets s.shared.
func (s *source) findShared() {
	s.shared = make(map[*yaml.Node]string)
	used := make(map[*yaml.Node]bool)
	var find func(n *yaml.Node)
	find = func(n *yaml.Node) {
		if n.Kind == yaml.AliasNode {
			used[n.Alias] = true
		}
		for _, c := range n.Content {
			find(c)
		}
	}
	var mark func(n *yaml.Node, anchor string)
	mark = func(n *yaml.Node, anchor string) {
		if used[n] {
			anchor = n.Anchor
		}
		if anchor != "" {
			s.shared[n] = anchor
		}
		for _, c := range n.Content {
			mark(c, anchor)
		}
	}
	for _, d := range s.documents {
		find(d)
	}
	for _, d := range s.documents {
		mark(d, "")
	}
}

// end returns the offset at which the value of a key ends. For a value in block style,
// this is the end of its last line, so a comment on that line is included.
func (s *source) end(key, value *yaml.Node, inFlow bool) int {
	if inFlow || isFlow(value) {
		return s.flowEnd(s.offset(value))
	}
	if value.Kind == yaml.AliasNode {
		return s.lineEnd(s.lineOf(s.offset(value)))
	}
	// A block value includes the following lines with a deeper indentation than its
	// key, or with the same indentation in a sequence.
	column := key.Column - 1
	last := key.Line - 1
	for i := key.Line; i < len(s.lines); i++ {
		text := s.line(i)
		content := strings.TrimLeft(text, " ")
		depth := len(text) - len(content)
		switch {
		case strings.TrimSpace(content) == "":
			continue
		case depth > column && !strings.HasPrefix(content, "\t"):
		case depth == column && value.Kind == yaml.SequenceNode && (content == "-" || strings.HasPrefix(content, "- ")):
		case content[0] == '#':
			continue
		default:
			return s.lineEnd(last)
		}
		last = i
	}
	return s.lineEnd(last)
}

func (s *source) lineEnd(i int) int { return s.lines[i] + len(s.line(i)) }

func isFlow(n *yaml.Node) bool {
	return n.Style&yaml.FlowStyle != 0 && (n.Kind == yaml.MappingNode || n.Kind == yaml.SequenceNode)
}

// flowEnd returns the offset at which a value in flow style ends. The parameter from is
// the offset at which the value begins.
func (s *source) flowEnd(from int) int {
	depth := 0
	for i := from; i < len(s.text); i++ {
		switch c := s.text[i]; c {
		case '"', '\'':
			if i > from && !strings.ContainsRune(" \t\r\n[{,:", rune(s.text[i-1])) {
				continue // part of a plain scalar
			}
			i = s.quoteEnd(i)
			if depth == 0 {
				return i + 1
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return len(strings.TrimRight(s.text[:i], " \t\r\n"))
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case ',':
			if depth == 0 {
				return len(strings.TrimRight(s.text[:i], " \t\r\n"))
			}
		case '#':
			if i > 0 && strings.ContainsRune(" \t\r\n", rune(s.text[i-1])) {
				i = s.lineEnd(s.lineOf(i)) - 1
			}
		}
	}
	return len(s.text)
}

// quoteEnd returns the offset of the closing quote of a quoted scalar. The parameter from
// is the offset of the opening quote.
func (s *source) quoteEnd(from int) int {
	quote := s.text[from]
	for i := from + 1; i < len(s.text); i++ {
		switch {
		case quote == '"' && s.text[i] == '\\':
			i++
		case s.text[i] == quote && quote == '\'' && i+1 < len(s.text) && s.text[i+1] == '\'':
			i++
		case s.text[i] == quote:
			return i
		}
	}
	return len(s.text) - 1
}

// apply applies edits, which must not overlap. Insertions come before a replacement at
// the same offset.
func apply(text string, edits []edit) (string, error) {
	edits = slices.Clone(edits)
	slices.SortStableFunc(edits, func(a, b edit) int { return cmp.Or(a.from-b.from, min(1, a.to-a.from)-min(1, b.to-b.from)) })
	var b strings.Builder
	at := 0
	for _, e := range edits {
		if e.from < at {
			return "", errors.New("two changes overlap")
		}
		b.WriteString(text[at:e.from])
		b.WriteString(e.text)
		at = e.to
	}
	b.WriteString(text[at:])
	return b.String(), nil
}

// entry is a key of a mapping with its value.
type entry struct {
	key, value *yaml.Node
	next       *yaml.Node // the next key
	previous   *entry
	merged     bool // the key is from a merged mapping ("<<")
}

// lookup finds a key of a mapping, also through aliases and merge keys.
func lookup(n *yaml.Node, name string) *entry {
	n = resolve(n)
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	var before, merged *entry
	for i := 0; i+1 < len(n.Content); i += 2 {
		e := &entry{key: n.Content[i], value: n.Content[i+1], previous: before}
		if i+2 < len(n.Content) {
			e.next = n.Content[i+2]
		}
		before = e
		switch {
		case e.key.Value == name:
			return e
		case e.key.Tag == "!!merge":
			bases := []*yaml.Node{e.value}
			if e.value.Kind == yaml.SequenceNode {
				bases = e.value.Content
			}
			for _, base := range bases {
				if found := lookup(base, name); found != nil && merged == nil {
					merged = &entry{key: found.key, value: found.value, merged: true}
				}
			}
		}
	}
	return merged
}

// valueAt returns the value at a path of keys, or nil.
func valueAt(n *yaml.Node, path ...string) *yaml.Node {
	for _, name := range path {
		e := lookup(n, name)
		if e == nil {
			return nil
		}
		n = resolve(e.value)
	}
	return resolve(n)
}

func resolve(n *yaml.Node) *yaml.Node {
	for n != nil && n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

// text returns the text of a scalar, or "" for another node.
func text(n *yaml.Node) string {
	if n == nil || n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		return ""
	}
	return n.Value
}

func items(n *yaml.Node) []*yaml.Node {
	if n == nil || n.Kind != yaml.SequenceNode {
		return nil
	}
	all := make([]*yaml.Node, len(n.Content))
	for i, c := range n.Content {
		all[i] = resolve(c)
	}
	return all
}

// object returns a mapping of key, value, key, value ... Each value is a string, an
// int, a bool, a node, a slice of nodes, or nil to omit its key.
func object(pairs ...any) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	for i := 0; i < len(pairs); i += 2 {
		var value *yaml.Node
		switch v := pairs[i+1].(type) {
		case nil:
			continue
		case *yaml.Node:
			if v == nil {
				continue
			}
			value = v
		case []*yaml.Node:
			value = &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Content: v}
		default:
			value = new(yaml.Node)
			if err := value.Encode(v); err != nil {
				panic("BUG: " + err.Error())
			}
		}
		n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: pairs[i].(string)}, value)
	}
	return n
}

// block formats a node in block style, with indent before all lines except the first.
func (s *source) block(n *yaml.Node, indent string) string {
	var b bytes.Buffer
	encoder := yaml.NewEncoder(&b)
	encoder.SetIndent(2)
	if err := encoder.Encode(n); err != nil {
		panic("BUG: " + err.Error())
	}
	return strings.ReplaceAll(strings.TrimSuffix(b.String(), "\n"), "\n", s.eol+indent)
}

// flow formats a node as one line of JSON.
func flow(n *yaml.Node) string { return line(n, ", ", ": ") }

// compact is flow without spaces.
func compact(n *yaml.Node) string { return line(n, ",", ":") }

func line(n *yaml.Node, comma, colon string) string {
	var b strings.Builder
	switch n = resolve(n); n.Kind {
	case yaml.MappingNode:
		for i := 0; i < len(n.Content); i += 2 {
			b.WriteString(comma + quote(n.Content[i].Value) + colon + line(n.Content[i+1], comma, colon))
		}
		return "{" + strings.TrimPrefix(b.String(), comma) + "}"
	case yaml.SequenceNode:
		for _, c := range n.Content {
			b.WriteString(comma + line(c, comma, colon))
		}
		return "[" + strings.TrimPrefix(b.String(), comma) + "]"
	}
	return scalarJSON(n)
}

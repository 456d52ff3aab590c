package manifest

import (
	"bytes"
	"compress/flate"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// verbatim is the value of an annotation that contains the changed text itself. It is
// used if a record cannot describe the style of the manifest. Manifests from earlier
// versions also have it. The position of a change before the annotation's value is
// relative to the beginning of the value. The position of a change after the value is
// relative to its end. Edits elsewhere therefore do not invalidate the positions.
type verbatim struct {
	// Prefix and Suffix are the texts that were inserted before and after the
	// annotation's value. Old is the text that they and the value replaced.
	Prefix  string   `json:"b"`
	Suffix  string   `json:"a,omitempty"`
	Old     string   `json:"o,omitempty"`
	Changes []change `json:"c"`
}

type change struct {
	Offset int    `json:"at"`
	Pre    string `json:"p,omitempty"` // text before the change
	Old    string `json:"o,omitempty"`
	New    string `json:"n,omitempty"`
}

func (r *verbatim) encode() string {
	text, _ := json.Marshal(r)
	var b bytes.Buffer
	w, _ := flate.NewWriter(&b, flate.BestCompression)
	_, _ = w.Write(text)
	_ = w.Close()
	return base64.RawURLEncoding.EncodeToString(b.Bytes())
}

func decodeVerbatim(text string) (*verbatim, error) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return nil, err
	}
	text2, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(raw)), 1<<22))
	if err != nil {
		return nil, err
	}
	r := new(verbatim)
	if err := json.Unmarshal(text2, r); err != nil {
		return nil, err
	}
	if len(r.Changes) > maxChanges {
		return nil, errors.New("too many changes")
	}
	return r, nil
}

// maxChanges is the maximum number of changes of one object. It limits the time, because
// each change needs a search through the file. Inject makes about four changes per
// container.
const maxChanges = 1000

// contextBytes is the length of change.Pre.
const contextBytes = 32

// describe returns the verbatim record of one object. The last parameter is the edit that
// adds the annotation. The parameter edits contains all other edits of the object.
func (s *source) describe(o manifestObject, edits []edit, a *edit) string {
	before, after, _ := cutValue(a.text)
	r := verbatim{Prefix: before, Suffix: after, Old: s.text[a.from:a.to]}
	// Compute positions in the new text.
	slices.SortFunc(edits, func(x, y edit) int { return x.from - y.from })
	shift := 0
	for _, e := range edits {
		if e.from >= a.from {
			break
		}
		shift += len(e.text) - (e.to - e.from)
	}
	start := a.from + shift + len(before) // start of the annotation's value
	moved, free := 0, s.offset(o.node)
	for _, e := range edits {
		if e.from >= a.from {
			free = max(free, a.to)
		}
		context := min(e.from, max(free, e.from-contextBytes))
		for context < e.from && !utf8.RuneStart(s.text[context]) {
			context++
		}
		c := change{Pre: s.text[context:e.from], Old: s.text[e.from:e.to], New: e.text}
		if e.from < a.from {
			c.Offset = e.from + moved - start
		} else {
			c.Offset = e.from + moved + len(before) + len(after) - len(r.Old) - start
		}
		moved += len(e.text) - (e.to - e.from)
		free = e.to
		r.Changes = append(r.Changes, c)
	}
	return r.encode()
}

// cutValue splits the text of the annotation at the placeholder.
func cutValue(text string) (prefix, suffix string, ok bool) {
	at := strings.LastIndex(text, Annotation)
	i := strings.IndexByte(text[at:], 'M')
	return text[:at+i], text[at+i+1:], true
}

// restoreVerbatim adds the edits that undo the changes of a verbatim record.
func (s *source) restoreVerbatim(value *yaml.Node) error {
	r, err := decodeVerbatim(value.Value)
	if err != nil {
		return fmt.Errorf("the annotation %s cannot be read: %w", Annotation, err)
	}
	start := s.offset(value)
	if strings.HasPrefix(s.text[start:], `"`) || strings.HasPrefix(s.text[start:], `'`) {
		start++
	}
	end := start + len(value.Value)
	if end > len(s.text) || !strings.HasSuffix(s.text[:start], r.Prefix) || !strings.HasPrefix(s.text[end:], r.Suffix) {
		return fmt.Errorf("line %d: the annotation %s was edited", value.Line, Annotation)
	}
	edits := []edit{{start - len(r.Prefix), end + len(r.Suffix), r.Old}}
	for _, c := range r.Changes {
		at := start + c.Offset
		if c.Offset >= 0 {
			at += len(value.Value)
		}
		expected := at - len(c.Pre)
		if at = nearest(s.text, c.Pre+c.New, expected) + len(c.Pre); at < len(c.Pre) {
			return s.firstDifference(c.Pre+c.New, expected)
		}
		edits = append(edits, edit{at, at + len(c.New), c.Old})
	}
	s.edits = append(s.edits, edits...)
	return nil
}

// firstDifference compares the expected text (want) with the file near the given offset.
// It returns an error that names the first line that differs.
func (s *source) firstDifference(want string, offset int) error {
	lines := strings.Split(want, "\n")
	first := slices.IndexFunc(lines, func(line string) bool { return len(strings.TrimSpace(line)) > 2 })
	if first < 0 {
		first = len(lines) - 1
	}
	if offset = nearest(s.text, lines[first], offset); offset < 0 {
		return fmt.Errorf("was edited after it was injected: it no longer has the line %q", strings.TrimSpace(lines[first]))
	}
	number := s.lineOf(offset)
	for i, line := range lines[first:] {
		found := ""
		if number+i < len(s.lines) {
			found = s.line(number + i)
		}
		if got, want := strings.TrimSpace(found), strings.TrimSpace(line); got != want && !strings.Contains(got, want) {
			return fmt.Errorf("was edited after it was injected: line %d is %q, was %q", number+i+1, got, want)
		}
	}
	return fmt.Errorf("line %d: was edited after it was injected", number+1)
}

// nearest returns the offset of a substring in the text, or -1 if the text does not
// contain it. Of several occurrences, it chooses the nearest to the given offset.
func nearest(text, part string, offset int) int {
	if offset >= 0 && offset <= len(text) && strings.HasPrefix(text[offset:], part) {
		return offset
	}
	offset = min(max(offset, 0), len(text))
	before, after := strings.LastIndex(text[:min(len(text), offset+len(part))], part), strings.Index(text[offset:], part)
	switch {
	case after < 0:
		return before
	case before < 0 || after < offset-before:
		return offset + after
	}
	return before
}

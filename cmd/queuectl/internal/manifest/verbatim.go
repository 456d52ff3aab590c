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
	// Before and After are the texts that were inserted before and after the
	// annotation's value. Old is the text that they and the value replaced.
	Before  string   `json:"b"`
	After   string   `json:"a,omitempty"`
	Old     string   `json:"o,omitempty"`
	Changes []change `json:"c"`
}

type change struct {
	At  int    `json:"at"`
	Pre string `json:"p,omitempty"` // text before the change
	Old string `json:"o,omitempty"`
	New string `json:"n,omitempty"`
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
// adds the annotation. The parameter own contains all other edits of the object.
func (s *source) describe(o manifestObject, own []edit, a *edit) string {
	before, after, _ := cutValue(a.text)
	r := verbatim{Before: before, After: after, Old: s.text[a.from:a.to]}
	// Compute positions in the new text.
	slices.SortFunc(own, func(x, y edit) int { return x.from - y.from })
	shift := 0
	for _, e := range own {
		if e.from >= a.from {
			break
		}
		shift += len(e.text) - (e.to - e.from)
	}
	start := a.from + shift + len(before) // start of the annotation's value
	moved, free := 0, s.offset(o.node)
	for _, e := range own {
		if e.from >= a.from {
			free = max(free, a.to)
		}
		context := min(e.from, max(free, e.from-contextBytes))
		for context < e.from && !utf8.RuneStart(s.text[context]) {
			context++
		}
		c := change{Pre: s.text[context:e.from], Old: s.text[e.from:e.to], New: e.text}
		if e.from < a.from {
			c.At = e.from + moved - start
		} else {
			c.At = e.from + moved + len(before) + len(after) - len(r.Old) - start
		}
		moved += len(e.text) - (e.to - e.from)
		free = e.to
		r.Changes = append(r.Changes, c)
	}
	return r.encode()
}

// cutValue splits the text of the annotation at the placeholder.
func cutValue(text string) (before, after string, ok bool) {
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
	if end > len(s.text) || !strings.HasSuffix(s.text[:start], r.Before) || !strings.HasPrefix(s.text[end:], r.After) {
		return fmt.Errorf("line %d: the annotation %s was edited", value.Line, Annotation)
	}
	edits := []edit{{start - len(r.Before), end + len(r.After), r.Old}}
	for _, c := range r.Changes {
		at := start + c.At
		if c.At >= 0 {
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
func (s *source) firstDifference(want string, at int) error {
	lines := strings.Split(want, "\n")
	first := slices.IndexFunc(lines, func(line string) bool { return len(strings.TrimSpace(line)) > 2 })
	if first < 0 {
		first = len(lines) - 1
	}
	if at = nearest(s.text, lines[first], at); at < 0 {
		return fmt.Errorf("was edited after it was injected: it no longer has the line %q", strings.TrimSpace(lines[first]))
	}
	number := s.lineOf(at)
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
func nearest(text, part string, at int) int {
	if at >= 0 && at <= len(text) && strings.HasPrefix(text[at:], part) {
		return at
	}
	at = min(max(at, 0), len(text))
	before, after := strings.LastIndex(text[:min(len(text), at+len(part))], part), strings.Index(text[at:], part)
	switch {
	case after < 0:
		return before
	case before < 0 || after < at-before:
		return at + after
	}
	return before
}

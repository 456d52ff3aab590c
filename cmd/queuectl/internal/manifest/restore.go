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

// Annotation is that of an object that was changed: what Uninject puts back.
const Annotation = "queuegate.dev/injected"

// record is the content of the annotation. Places are relative to its value: to
// its beginning if they are before it, to its end if they are behind it, so that
// they hold whatever else is in the file.
type record struct {
	// Before and After are what was put around the value, Old what was there.
	Before  string   `json:"b"`
	After   string   `json:"a,omitempty"`
	Old     string   `json:"o,omitempty"`
	Changes []change `json:"c"`
}

type change struct {
	At  int    `json:"at"`
	Pre string `json:"p,omitempty"` // what stands before it
	Old string `json:"o,omitempty"`
	New string `json:"n,omitempty"`
}

func (r *record) encode() string {
	text, _ := json.Marshal(r)
	var b bytes.Buffer
	w, _ := flate.NewWriter(&b, flate.BestCompression)
	_, _ = w.Write(text)
	_ = w.Close()
	return base64.RawURLEncoding.EncodeToString(b.Bytes())
}

func decodeRecord(text string) (*record, error) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return nil, err
	}
	text2, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(raw)), 1<<22))
	if err != nil {
		return nil, err
	}
	r := new(record)
	if err := json.Unmarshal(text2, r); err != nil {
		return nil, err
	}
	if len(r.Changes) > maxChanges {
		return nil, errors.New("too many changes")
	}
	return r, nil
}

// maxChanges limits the changes of an object: each one costs a search through the
// whole file, and a small compressed annotation can hold a long list. Inject makes
// about four for each container.
const maxChanges = 1000

// contextBytes is how much of what stands before a change is remembered with it.
const contextBytes = 32

// annotate adds the annotation that takes back the edits from first on, which
// are those of one object.
func (s *source) annotate(o manifestObject, first int) error {
	metadata := at(o.node, "metadata")
	own := s.edits[first:]
	pair := object(Annotation, "M")
	index := len(s.edits)
	switch e := lookup(metadata, "annotations"); {
	case metadata == nil || metadata.Kind != yaml.MappingNode || len(metadata.Content) == 0:
		return errors.New("metadata: is empty")
	case e == nil:
		s.insertFirst(metadata, object("annotations", pair))
	case e.merged || e.value.Kind == yaml.AliasNode:
		return errors.New("metadata.annotations: is an alias")
	case isEmpty(e.value):
		s.fill(e, pair, isFlow(metadata))
	case e.value.Kind != yaml.MappingNode:
		return errors.New("metadata.annotations: is no mapping")
	default:
		s.insertFirst(e.value, pair)
	}
	if err := s.checkShared("metadata", metadata); err != nil {
		return err
	}
	a := &s.edits[index]
	before, after, _ := cutValue(a.text)
	r := record{Before: before, After: after, Old: s.text[a.from:a.to]}
	// Where changes are once all of them are made.
	slices.SortFunc(own, func(x, y edit) int { return x.from - y.from })
	shift := 0
	for _, e := range own {
		if e.from >= a.from {
			break
		}
		shift += len(e.text) - (e.to - e.from)
	}
	start := a.from + shift + len(before) // of the value, in the new text
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
	a.text = before + r.encode() + after
	return nil
}

// cutValue takes the text of the annotation apart around its value.
func cutValue(text string) (before, after string, ok bool) {
	at := strings.LastIndex(text, Annotation)
	i := strings.IndexByte(text[at:], 'M')
	return text[:at+i], text[at+i+1:], true
}

// restore adds the edits that take an object's changes back.
func (s *source) restore(value *yaml.Node) error {
	r, err := decodeRecord(value.Value)
	if err != nil {
		return fmt.Errorf("the annotation %s cannot be read: %w", Annotation, err)
	}
	start := s.offset(value)
	if strings.HasPrefix(s.text[start:], `"`) || strings.HasPrefix(s.text[start:], `'`) {
		start++
	}
	end := start + len(value.Value)
	if !strings.HasSuffix(s.text[:start], r.Before) || !strings.HasPrefix(s.text[end:], r.After) {
		return fmt.Errorf("the annotation %s is no longer as it was written", Annotation)
	}
	edits := []edit{{start - len(r.Before), end + len(r.After), r.Old}}
	for _, c := range r.Changes {
		at := start + c.At
		if c.At >= 0 {
			at += len(value.Value)
		}
		if at = nearest(s.text, c.Pre+c.New, at-len(c.Pre)) + len(c.Pre); at < len(c.Pre) {
			return fmt.Errorf("was edited after it was injected: this is not there any more:\n%s", strings.TrimSpace(c.Pre+c.New))
		}
		edits = append(edits, edit{at, at + len(c.New), c.Old})
	}
	s.edits = append(s.edits, edits...)
	return nil
}

// nearest is the place of part in text that is nearest to at, or -1. Nothing is
// where it was, if at all.
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

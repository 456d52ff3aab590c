package hostile

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

type stepKind uint8

const (
	stepWrite  stepKind = iota // write data to the connection
	stepPause                  // give the peer time to read
	stepAwait                  // client: wait for a response head
	stepSync                   // container: wait until the client has its responses
	stepFinish                 // half-close
	stepReset                  // close with a reset
	stepEcho                   // container: echo further bytes
)

// step is an action of the client or the container.
type step struct {
	kind stepKind
	data []byte
}

var stepNames = map[string]stepKind{
	"pause": stepPause, "await": stepAwait, "sync": stepSync, "fin": stepFinish, "close": stepFinish,
	"rst": stepReset, "echo": stepEcho,
}

var errScript = errors.New("bad script")

// expansion is the state of parsing a script (see testdata/README.md). In the map variables,
// the text of {NAME} is the value for the key NAME.
type expansion struct {
	variables map[string]string
	parts     []scriptPart
	// The key is the name of a span {<b}…{>b}. The value has two indexes in the slice
	// parts. The first one is the index of the span's first part, and the second one is
	// the index of the first part after the span.
	spans map[string][2]int
}

// scriptPart is a step of a script. If the script has {len b} or {hex b} at this place, the
// part writes a number: the length of the span with the name b. This number is computed
// when all parts are known.
type scriptPart struct {
	step
	lengthOf string
	base     int
}

func expand(text string, variables map[string]string) ([]step, error) {
	e := &expansion{variables: variables, spans: map[string][2]int{}}
	if err := e.read(text); err != nil {
		return nil, err
	}
	for i := range e.parts {
		p := &e.parts[i]
		if p.lengthOf == "" {
			continue
		}
		span, ok := e.spans[p.lengthOf]
		if !ok || span[1] == 0 {
			return nil, fmt.Errorf("%w: no span {<%s}…{>%s}", errScript, p.lengthOf, p.lengthOf)
		}
		total := 0
		for _, inner := range e.parts[span[0]:span[1]] {
			total += len(inner.data)
		}
		p.data = strconv.AppendInt(nil, int64(total), p.base)
	}
	return joined(e.parts), nil
}

func joined(parts []scriptPart) []step {
	var steps []step
	for _, p := range parts {
		last := len(steps) - 1
		switch {
		case p.kind == stepWrite && len(p.data) == 0:
		case p.kind == stepWrite && last >= 0 && steps[last].kind == stepWrite:
			steps[last].data = append(steps[last].data, p.data...)
		default:
			steps = append(steps, step{p.kind, bytes.Clone(p.data)})
		}
	}
	return steps
}

func (e *expansion) write(data string) {
	e.parts = append(e.parts, scriptPart{step: step{stepWrite, []byte(data)}})
}

func (e *expansion) read(text string) error {
	for len(text) > 0 {
		switch text[0] {
		case '\\':
			data, rest, err := unescape(text)
			if err != nil {
				return err
			}
			e.write(data)
			text = rest
		case '{':
			end := closingBrace(text)
			if end < 0 {
				return fmt.Errorf("%w: no closing brace in %.40q", errScript, text)
			}
			if err := e.macro(text[1:end]); err != nil {
				return err
			}
			text = text[end+1:]
		default:
			n := strings.IndexAny(text, `\{`)
			if n < 0 {
				n = len(text)
			}
			e.write(text[:n])
			text = text[n:]
		}
	}
	return nil
}

// closingBrace returns the index of the brace that closes the first opening brace in
// text, or -1 if there is none.
func closingBrace(text string) int {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '{':
			depth++
		case '}':
			depth--
			if depth == 0 {
				return i
			}
		}
	}
	return -1
}

// unescape decodes the escape at the start of text.
func unescape(text string) (data, rest string, err error) {
	if len(text) < 2 {
		return "", "", fmt.Errorf("%w: lone backslash", errScript)
	}
	switch text[1] {
	case 'r':
		return "\r", text[2:], nil
	case 'n':
		return "\n", text[2:], nil
	case 't':
		return "\t", text[2:], nil
	case '0':
		return "\x00", text[2:], nil
	case '\\', '{', '}':
		return text[1:2], text[2:], nil
	case 'x':
		if len(text) >= 4 {
			if v, err := strconv.ParseUint(text[2:4], 16, 8); err == nil {
				return string([]byte{byte(v)}), text[4:], nil
			}
		}
	}
	return "", "", fmt.Errorf("%w: escape %.4q", errScript, text)
}

func (e *expansion) macro(name string) error {
	if value, ok := e.variables[name]; ok {
		e.write(value)
		return nil
	}
	if kind, ok := stepNames[name]; ok {
		e.parts = append(e.parts, scriptPart{step: step{kind: kind}})
		return nil
	}
	if span, ok := strings.CutPrefix(name, "<"); ok {
		e.spans[span] = [2]int{len(e.parts), 0}
		return nil
	}
	if span, ok := strings.CutPrefix(name, ">"); ok {
		e.spans[span] = [2]int{e.spans[span][0], len(e.parts)}
		return nil
	}
	command, rest, _ := strings.Cut(name, " ")
	switch command {
	case "len":
		e.parts = append(e.parts, scriptPart{lengthOf: rest, base: 10})
		return nil
	case "hex":
		e.parts = append(e.parts, scriptPart{lengthOf: rest, base: 16})
		return nil
	case "x":
		count, unit, _ := strings.Cut(rest, " ")
		n, err := strconv.Atoi(count)
		if err != nil {
			return fmt.Errorf("%w: {%s}: %w", errScript, name, err)
		}
		inner, err := expand(unit, e.variables)
		if err != nil || len(inner) != 1 {
			return fmt.Errorf("%w: {%s} repeats no plain bytes", errScript, name)
		}
		e.write(strings.Repeat(string(inner[0].data), n))
		return nil
	case "fields":
		n, err := strconv.Atoi(rest)
		if err != nil {
			return fmt.Errorf("%w: {%s}: %w", errScript, name, err)
		}
		var all strings.Builder
		for i := range n {
			fmt.Fprintf(&all, "X-Field-%d: %d\r\n", i, i)
		}
		e.write(all.String())
		return nil
	}
	return fmt.Errorf("%w: unknown {%s}", errScript, name)
}

func written(steps []step) []byte {
	var all []byte
	for _, s := range steps {
		if s.kind == stepWrite {
			all = append(all, s.data...)
		}
	}
	return all
}

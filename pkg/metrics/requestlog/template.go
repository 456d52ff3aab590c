package requestlog

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"text/template"
	"text/template/parse"
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
)

// lineTemplate renders lines with text/template. Like html/template, it rewrites the
// parse tree to escape the values that actions print. Its methods must not be called
// concurrently.
type lineTemplate struct {
	text  *template.Template
	view  view
	out   output
	depth int  // nesting depth of executing templates
	tried bool // out.json is set
}

const (
	// maxDepth is the maximum nesting depth of executing templates. The limit of package
	// text/template is so high that a recursive template would use 100 MB of memory.
	maxDepth = 100

	// maxPooledLine is the largest buffer in bytes that is kept for reuse.
	maxPooledLine = 64 << 10

	// maxLine is the maximum length of a line in bytes.
	maxLine = 16 << 20
)

// Names of the functions that rewriting inserts. A template cannot call them, because
// they are undefined when its text is parsed.
const (
	escapeFunction = "_escape"
	enterFunction  = "_enter"
	leaveFunction  = "_leave"
)

var (
	errTooDeep = fmt.Errorf("more than %d templates within each other", maxDepth)
	errTooLong = fmt.Errorf("a line of more than %d MiB", maxLine>>20)
)

func parseTemplate(text string) (*lineTemplate, error) {
	parsed, err := template.New("line").Option("missingkey=zero").Funcs(functions).Parse(text)
	if err != nil {
		return nil, trimmed(err)
	}
	t := &lineTemplate{text: parsed}
	for _, part := range parsed.Templates() {
		if part.Tree != nil && part.Root != nil {
			escapeList(part.Root)
			part.Root.Nodes = slices.Concat([]parse.Node{call(enterFunction)}, part.Root.Nodes, []parse.Node{call(leaveFunction)})
		}
	}
	parsed.Funcs(template.FuncMap{escapeFunction: t.escape, enterFunction: t.enter, leaveFunction: t.leave})
	return t, nil
}

// trimmed removes the prefix that text/template adds to an error.
func trimmed(err error) error { return errors.New(strings.TrimPrefix(err.Error(), "template: ")) }

// escapeList rewrites the actions in a list and in its nested lists.
func escapeList(list *parse.ListNode) {
	if list == nil {
		return
	}
	for _, node := range list.Nodes {
		switch n := node.(type) {
		case *parse.ActionNode:
			if len(n.Pipe.Decl) == 0 && hasRecord(n.Pipe) {
				n.Pipe.Cmds = append(n.Pipe.Cmds, command(escapeFunction))
			}
		case *parse.IfNode:
			escapeBranch(&n.BranchNode)
		case *parse.WithNode:
			escapeBranch(&n.BranchNode)
		case *parse.RangeNode:
			escapeBranch(&n.BranchNode)
		}
	}
}

func escapeBranch(n *parse.BranchNode) {
	escapeList(n.List)
	escapeList(n.ElseList)
}

// hasRecord reports whether a pipeline may contain values of the request.
func hasRecord(pipe *parse.PipeNode) bool {
	for _, cmd := range pipe.Cmds {
		for _, arg := range cmd.Args {
			switch arg := arg.(type) {
			case *parse.PipeNode:
				if hasRecord(arg) {
					return true
				}
			case *parse.FieldNode, *parse.VariableNode, *parse.DotNode, *parse.ChainNode:
				return true
			}
		}
	}
	return false
}

func command(function string) *parse.CommandNode {
	return &parse.CommandNode{NodeType: parse.NodeCommand, Args: []parse.Node{parse.NewIdentifier(function)}}
}

func call(function string) *parse.ActionNode {
	pipe := &parse.PipeNode{NodeType: parse.NodePipe, Cmds: []*parse.CommandNode{command(function)}}
	return &parse.ActionNode{NodeType: parse.NodeAction, Pipe: pipe}
}

// escape is the last command of an action. It writes the value itself and returns "",
// so that text/template prints nothing.
func (t *lineTemplate) escape(v any) string {
	t.out.value(v)
	return ""
}

func (t *lineTemplate) enter() (string, error) {
	t.depth++
	if t.depth > maxDepth {
		return "", errTooDeep
	}
	return "", nil
}

func (t *lineTemplate) leave() string {
	t.depth--
	return ""
}

func (t *lineTemplate) appendLine(b []byte, e *Entry, revision *RevisionInfo) ([]byte, error) {
	// makesJSON is called here, at the first line. If it were called when the log is
	// created, it would delay the start of the gate.
	if !t.tried {
		t.tried = true
		t.out.json = t.makesJSON()
	}
	return t.append(b, e, revision)
}

func (t *lineTemplate) append(b []byte, e *Entry, revision *RevisionInfo) (line []byte, err error) {
	defer func() {
		if r := recover(); r != nil { // text/template does not recover runtime errors
			line, err = b, fmt.Errorf("request log template: a panic: %v", r)
		}
		if cap(t.out.b) > maxPooledLine {
			t.out.b = nil
		}
	}()
	t.depth = 0
	t.out = output{b: t.out.b[:0], json: t.out.json}
	if err := t.text.Execute(&t.out, t.view.inputOf(e, revision)); err != nil {
		return b, fmt.Errorf("request log template: %w", trimmed(err))
	}
	return append(b, t.out.line()...), nil
}

// makesJSON reports whether the template produces JSON for all sample entries. It
// ignores samples without a line.
func (t *lineTemplate) makesJSON() bool {
	t.out.json = true
	entries := []*Entry{newEntry(&Log{})}
	for _, status := range []int{200, 302, 404, 499, 503} {
		entries = append(entries, sampleEntry(status))
	}
	lines := 0
	for _, e := range entries {
		line, err := t.append(nil, e, &RevisionInfo{"name", "namespace", "service", "configuration", "pod", "192.0.2.2"})
		if err != nil || len(line) == 0 {
			continue
		}
		if line[0] != '{' || !json.Valid(line) {
			return false
		}
		lines++
	}
	return lines > 0
}

// sampleEntry returns an entry with a value for each field.
func sampleEntry(status int) *Entry {
	e := newEntry(&Log{})
	e.format = new(format)
	e.begin(&gate.Record{
		Method: []byte("POST"), Target: []byte("/a?b=c"), Protocol: "HTTP/1.1", Host: []byte("example.com"),
		Peer: netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, 1}), 1234),
	})
	e.addField([]byte("User-Agent"), []byte("sample"))
	e.addField([]byte("Content-Length"), []byte("1"))
	e.result = Result{
		Status: status, RequestBytes: 1, ResponseBytes: 2, Total: 12345 * time.Microsecond, TraceID: [16]byte{1},
	}
	return e
}

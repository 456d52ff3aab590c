package requestlog

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"text/template/parse"
	"time"
)

// lineTemplate is a template that has been checked. It is not for use by
// several goroutines at once.
type lineTemplate struct {
	trees    map[string]*parse.Tree
	constant map[*parse.PipeNode]bool // has nothing of the record in it
	needs    needs
	json     bool

	run evaluator
}

const mainTemplate = "line"

func parseTemplate(text string) (*lineTemplate, error) {
	names := map[string]any{}
	for _, f := range functions {
		names[f.name] = true
	}
	trees, err := parse.Parse(mainTemplate, text, "", "", names)
	if err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "template: "))
	}
	t := &lineTemplate{trees: trees, constant: map[*parse.PipeNode]bool{}}
	for _, name := range slices.Sorted(maps.Keys(trees)) {
		t.study(trees[name].Root)
	}
	if err := t.check(); err != nil {
		return nil, err
	}
	t.json = t.makesJSON()
	return t, nil
}

// check executes all branches against an empty record.
func (t *lineTemplate) check() error {
	rec := emptyRecord()
	e := evaluator{template: t, checking: map[string]bool{}}
	e.execute(&rec)
	return e.fault
}

// makesJSON tries records of several kinds, as a template may choose what it
// logs. One without a line says nothing.
func (t *lineTemplate) makesJSON() bool {
	t.json = true
	records := []record{emptyRecord()}
	for _, status := range []int{200, 302, 404, 499, 503} {
		records = append(records, sampleRecord(status))
	}
	lines := 0
	for i := range records {
		line := t.appendLine(nil, &records[i])
		if len(line) == 0 {
			continue
		}
		if line[0] != '{' || !json.Valid(line) {
			return false
		}
		lines++
	}
	return lines > 0
}

func (t *lineTemplate) appendLine(b []byte, rec *record) []byte {
	t.run.template = t
	t.run.out = output{b: t.run.out.b[:0], json: t.json}
	t.run.execute(rec)
	b = append(b, t.run.out.line()...)
	if cap(t.run.out.b) > writeSize {
		t.run.out.b = nil
	}
	return b
}

func emptyRecord() record { return record{entry: &Entry{log: &Log{}}, revision: &RevisionInfo{}} }

// sampleRecord has all that a record can have.
func sampleRecord(status int) record {
	e := newEntry(&Log{needs: needs{all: true}})
	e.log.entries.New = func() any { return e }
	e.log.Begin(Head{
		Method: []byte("POST"), Target: []byte("/a?b=c"), Protocol: "HTTP/1.1", Host: []byte("example.com"),
		Peer: netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, 1}), 1234),
	})
	e.addField([]byte("User-Agent"), []byte("sample"))
	e.addField([]byte("Content-Length"), []byte("1"))
	e.result = Result{
		Status: status, RequestBytes: 1, ResponseBytes: 2, Total: 12345 * time.Microsecond, TraceID: [16]byte{1},
	}
	return record{entry: e, revision: &RevisionInfo{"name", "namespace", "service", "configuration", "pod", "192.0.2.2"}}
}

// study finds the constants and what is needed of the header.
func (t *lineTemplate) study(node parse.Node) {
	switch n := node.(type) {
	case *parse.ListNode:
		if n != nil {
			for _, child := range n.Nodes {
				t.study(child)
			}
		}
	case *parse.ActionNode:
		t.studyPipe(n.Pipe)
	case *parse.IfNode:
		t.studyBranch(&n.BranchNode)
	case *parse.WithNode:
		t.studyBranch(&n.BranchNode)
	case *parse.RangeNode:
		t.studyBranch(&n.BranchNode)
	case *parse.TemplateNode:
		t.studyPipe(n.Pipe)
	}
}

func (t *lineTemplate) studyBranch(n *parse.BranchNode) {
	t.studyPipe(n.Pipe)
	t.study(n.List)
	t.study(n.ElseList)
}

func (t *lineTemplate) studyPipe(pipe *parse.PipeNode) (constant bool) {
	if pipe == nil {
		return false
	}
	constant = true
	for _, cmd := range pipe.Cmds {
		t.needs.command(cmd.Args)
		for _, arg := range cmd.Args {
			switch arg := arg.(type) {
			case *parse.PipeNode:
				constant = t.studyPipe(arg) && constant
			case *parse.ChainNode:
				if inner, ok := arg.Node.(*parse.PipeNode); ok {
					t.studyPipe(inner)
				}
				constant = false
			case *parse.FieldNode, *parse.VariableNode, *parse.DotNode:
				constant = false
			}
		}
	}
	t.constant[pipe] = constant
	return constant
}

// faultAt names the place of what is wrong.
func (t *lineTemplate) faultAt(node parse.Node, err error) error {
	location, context := t.trees[mainTemplate].ErrorContext(node)
	return fmt.Errorf("%s: at <%s>: %w", location, context, err)
}

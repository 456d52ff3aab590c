package requestlog

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"text/template/parse"
)

// errMissing is what an expression comes to that asks for something the
// record does not have. It renders empty.
var errMissing = errors.New("missing")

const maxDepth = 100 // templates within templates

// evaluator executes a template, as text/template does. What cannot be
// evaluated renders empty.
type evaluator struct {
	template *lineTemplate
	out      output
	vars     []variable
	root     any
	depth    int

	checking map[string]bool // not nil: take every branch, each template once
	fault    error           // the first that is the template's own
}

type variable struct {
	name  string
	value any
}

// control says how a list of nodes ended.
type control uint8

const (
	proceed control = iota
	breakRange
	continueRange
	give // up: too deep
)

func (e *evaluator) execute(rec *record) {
	e.root = rootObject{rec}
	e.vars = append(e.vars[:0], variable{"$", e.root})
	e.depth = 0
	if tree := e.template.trees[mainTemplate]; tree != nil && tree.Root != nil {
		e.list(e.root, tree.Root)
	}
	e.root = nil
	clear(e.vars)
}

func (e *evaluator) noteFault(node parse.Node, err error) {
	if e.checking != nil && e.fault == nil && !errors.Is(err, errMissing) {
		e.fault = e.template.faultAt(node, err)
	}
}

func (e *evaluator) list(dot any, list *parse.ListNode) control {
	if list == nil {
		return proceed
	}
	for _, node := range list.Nodes {
		if c := e.node(dot, node); c != proceed && e.checking == nil {
			return c
		}
	}
	return proceed
}

func (e *evaluator) node(dot any, node parse.Node) control {
	switch n := node.(type) {
	case *parse.TextNode:
		e.out.literal(n.Text)
	case *parse.ActionNode:
		e.action(dot, n)
	case *parse.IfNode:
		return e.branch(dot, &n.BranchNode, false)
	case *parse.WithNode:
		return e.branch(dot, &n.BranchNode, true)
	case *parse.RangeNode:
		return e.loop(dot, n)
	case *parse.TemplateNode:
		return e.call(dot, n)
	case *parse.BreakNode:
		return breakRange
	case *parse.ContinueNode:
		return continueRange
	}
	return proceed
}

func (e *evaluator) action(dot any, n *parse.ActionNode) {
	v, err := e.pipe(dot, n.Pipe)
	if err != nil {
		e.noteFault(n, err)
		v = nil
	}
	switch {
	case len(n.Pipe.Decl) > 0:
	case e.template.constant[n.Pipe]:
		e.out.literal([]byte(printed(v)))
	default:
		e.out.value(v)
	}
}

func (e *evaluator) branch(dot any, n *parse.BranchNode, with bool) control {
	defer e.forget(len(e.vars))
	v, err := e.pipe(dot, n.Pipe)
	if err != nil {
		e.noteFault(n, err)
		v = nil
	}
	inner := dot
	if with {
		inner = v
	}
	if e.checking != nil {
		e.list(inner, n.List)
		return e.list(dot, n.ElseList)
	}
	if truth(v) {
		return e.list(inner, n.List)
	}
	return e.list(dot, n.ElseList)
}

func (e *evaluator) forget(vars int) { e.vars = e.vars[:vars] }

func (e *evaluator) loop(dot any, n *parse.RangeNode) control {
	defer e.forget(len(e.vars))
	v, err := e.pipe(dot, n.Pipe)
	if err != nil {
		e.noteFault(n, err)
		v = nil
	}
	vars := len(e.vars)
	ran := false
	each := func(key, value any) control {
		ran = true
		e.forget(vars)
		switch decl := n.Pipe.Decl; len(decl) {
		case 1:
			e.set(decl[0].Ident[0], value)
		case 2:
			e.set(decl[0].Ident[0], key)
			e.set(decl[1].Ident[0], value)
		}
		return e.list(value, n.List)
	}
	c := proceed
	switch v := v.(type) {
	case nil:
	case list:
		for i := 0; i < len(v) && c != breakRange && c != give; i++ {
			c = each(i, v[i])
		}
		if e.checking != nil && len(v) == 0 {
			each(0, "")
		}
	case header:
		c = e.loopMap(v, each)
	case query:
		c = e.loopMap(v, each)
	case int:
		for i := 0; i < v && c != breakRange && c != give; i++ {
			c = each(i, i)
		}
	default:
		e.noteFault(n, fmt.Errorf("range cannot go over %v", v))
	}
	if c == give {
		return give
	}
	if !ran || e.checking != nil {
		e.forget(vars)
		return e.list(dot, n.ElseList)
	}
	return proceed
}

func (e *evaluator) loopMap(m map[string][]string, each func(key, value any) control) (c control) {
	if e.checking != nil && len(m) == 0 {
		return each("", list(nil))
	}
	for _, key := range slices.Sorted(maps.Keys(m)) {
		if c = each(key, list(m[key])); c == breakRange || c == give {
			break
		}
	}
	return c
}

// set gives the innermost variable of a range its value.
func (e *evaluator) set(name string, value any) { e.vars = append(e.vars, variable{name, value}) }

func (e *evaluator) call(dot any, n *parse.TemplateNode) control {
	tree := e.template.trees[n.Name]
	if tree == nil {
		e.noteFault(n, fmt.Errorf("template %q is not defined", n.Name))
		return proceed
	}
	var arg any
	if n.Pipe != nil {
		var err error
		if arg, err = e.pipe(dot, n.Pipe); err != nil {
			e.noteFault(n, err)
			arg = nil
		}
	}
	if e.checking != nil {
		if e.checking[n.Name] {
			return proceed
		}
		e.checking[n.Name] = true
	}
	if e.depth == maxDepth {
		return give
	}
	outer := e.vars
	e.vars = []variable{{"$", arg}}
	e.depth++
	c := e.list(arg, tree.Root)
	e.depth--
	e.vars = outer
	if c == give {
		return give
	}
	return proceed
}

// pipe evaluates a pipeline and assigns what it declares.
func (e *evaluator) pipe(dot any, pipe *parse.PipeNode) (any, error) {
	var (
		value any
		err   error
		final []any
	)
	for _, cmd := range pipe.Cmds {
		value, err = e.command(dot, cmd, final)
		if err != nil {
			break
		}
		final = []any{value}
	}
	if err != nil {
		value = nil
	}
	for _, decl := range pipe.Decl {
		if pipe.IsAssign {
			for i := len(e.vars) - 1; i >= 0; i-- {
				if e.vars[i].name == decl.Ident[0] {
					e.vars[i].value = value
					break
				}
			}
		} else {
			e.set(decl.Ident[0], value)
		}
	}
	return value, err
}

func (e *evaluator) command(dot any, cmd *parse.CommandNode, final []any) (any, error) {
	first := cmd.Args[0]
	switch n := first.(type) {
	case *parse.IdentifierNode:
		return e.function(dot, n.Ident, cmd.Args[1:], final)
	case *parse.FieldNode:
		return e.members(dot, dot, n.Ident, cmd.Args[1:], final)
	case *parse.VariableNode:
		return e.members(dot, e.variable(n.Ident[0]), n.Ident[1:], cmd.Args[1:], final)
	case *parse.ChainNode:
		inner, err := e.operand(dot, n.Node)
		if err != nil {
			return nil, err
		}
		return e.members(dot, inner, n.Field, cmd.Args[1:], final)
	}
	if len(cmd.Args) > 1 || len(final) > 0 {
		return nil, fmt.Errorf("%s is not a function", first)
	}
	return e.operand(dot, first)
}

// operand evaluates a node that stands alone.
func (e *evaluator) operand(dot any, node parse.Node) (any, error) {
	switch n := node.(type) {
	case *parse.DotNode:
		return dot, nil
	case *parse.NilNode:
		return nil, nil
	case *parse.BoolNode:
		return n.True, nil
	case *parse.StringNode:
		return n.Text, nil
	case *parse.NumberNode:
		return number(n)
	case *parse.PipeNode:
		return e.pipe(dot, n)
	case *parse.FieldNode:
		return e.members(dot, dot, n.Ident, nil, nil)
	case *parse.VariableNode:
		return e.members(dot, e.variable(n.Ident[0]), n.Ident[1:], nil, nil)
	case *parse.IdentifierNode:
		return e.function(dot, n.Ident, nil, nil)
	case *parse.ChainNode:
		inner, err := e.operand(dot, n.Node)
		if err != nil {
			return nil, err
		}
		return e.members(dot, inner, n.Field, nil, nil)
	}
	return nil, fmt.Errorf("%s has no value", node)
}

func (e *evaluator) variable(name string) any {
	for i := len(e.vars) - 1; i >= 0; i-- {
		if e.vars[i].name == name {
			return e.vars[i].value
		}
	}
	return nil
}

// members follows a path from a value. The arguments belong to its last part.
func (e *evaluator) members(dot, value any, path []string, nodes []parse.Node, final []any) (any, error) {
	args, err := e.arguments(dot, nodes, final)
	if err != nil {
		return nil, err
	}
	if len(path) == 0 && len(args) > 0 {
		return nil, errors.New("a value takes no arguments")
	}
	for i, name := range path {
		var given []any
		if i == len(path)-1 {
			given = args
		}
		switch v := value.(type) {
		case nil:
			return nil, errMissing
		case object:
			if value, err = v.member(name, given); err != nil {
				return nil, err
			}
		default:
			return nil, fmt.Errorf("%v has no %s", v, name)
		}
	}
	return value, nil
}

func (e *evaluator) arguments(dot any, nodes []parse.Node, final []any) ([]any, error) {
	if len(nodes) == 0 {
		return final, nil
	}
	args := make([]any, 0, len(nodes)+1)
	for _, node := range nodes {
		v, err := e.operand(dot, node)
		if err != nil {
			return nil, err
		}
		args = append(args, v)
	}
	return append(args, final...), nil
}

func (e *evaluator) function(dot any, name string, nodes []parse.Node, final []any) (any, error) {
	if name == "and" || name == "or" {
		return e.junction(dot, name, nodes, final)
	}
	args, err := e.arguments(dot, nodes, final)
	if err != nil {
		return nil, err
	}
	return callFunction(name, args)
}

// junction stops at the first argument that decides.
func (e *evaluator) junction(dot any, name string, nodes []parse.Node, final []any) (value any, err error) {
	if len(nodes)+len(final) == 0 {
		return nil, fmt.Errorf("%s takes one argument or more", name)
	}
	for i := range len(nodes) + len(final) {
		if i < len(nodes) {
			value, err = e.operand(dot, nodes[i])
		} else {
			value = final[0]
		}
		if errors.Is(err, errMissing) {
			value, err = nil, nil
		}
		if err != nil {
			return nil, err
		}
		if truth(value) == (name == "or") && e.checking == nil {
			return value, nil
		}
	}
	return value, nil
}

func number(n *parse.NumberNode) (any, error) {
	switch {
	case n.IsInt && !isWrittenAsFloat(n.Text):
		return int(n.Int64), nil
	case n.IsFloat:
		return n.Float64, nil
	}
	return nil, fmt.Errorf("%s is no number that fits", n.Text)
}

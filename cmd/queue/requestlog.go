package main

import (
	"errors"
	"strings"
	"text/template/parse"
)

// templateValue is a text/template for request log lines. Syntax and names of functions are checked here, without text/template
// itself, whose use of reflection keeps every method of the program alive in the binary.
type templateValue string

// templateFunctions are the functions that every text/template knows. Parsing only asks for the names.
var templateFunctions = []string{
	"and", "break", "call", "continue", "eq", "ge", "gt", "html", "index", "js", "le", "len", "lt", "ne", "not", "or", "print",
	"printf", "println", "slice", "urlquery",
}

func (v *templateValue) set(text string) error {
	known := make(map[string]any, len(templateFunctions))
	for _, name := range templateFunctions {
		known[name] = true
	}
	if _, err := parse.Parse("template", text, "", "", known); err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "template: "))
	}
	*v = templateValue(text)
	return nil
}
func (v *templateValue) text() string { return string(*v) }
func (*templateValue) accepts() string {
	return "a Go template over .Request, .Response, .Revision and .TraceID"
}
func (*templateValue) hint() string { return "TEMPLATE" }

package requestlog

import (
	"net/textproto"
	"slices"
	"text/template/parse"
)

// needs says which header fields a line can show.
type needs struct {
	all   bool
	names []string // canonical
}

func (n *needs) any() bool { return n.all || len(n.names) > 0 }

func (n *needs) has(name []byte) bool {
	if n.all {
		return true
	}
	for _, known := range n.names {
		if equalFold(name, known) {
			return true
		}
	}
	return false
}

func (n *needs) add(names ...string) {
	for _, name := range names {
		name = textproto.CanonicalMIMEHeaderKey(name)
		if !slices.Contains(n.names, name) {
			n.names = append(n.names, name)
		}
	}
}

// headerMethods are the methods of .Request.Header; any other name is a key.
var headerMethods = []string{"Get", "Values"}

// command notes what a command of a template asks for. A use of the request or
// its header that does not name a field asks for all.
func (n *needs) command(args []parse.Node) {
	for i, arg := range args {
		path := memberPath(arg)
		if at := slices.Index(path, "Request"); at >= 0 {
			path = path[at+1:]
		} else {
			continue
		}
		switch {
		case len(path) == 0:
			n.all = true
		case path[0] == "UserAgent":
			n.add("User-Agent")
		case path[0] == "Referer":
			n.add("Referer")
		case path[0] == "ContentLength":
			n.add("Content-Length")
		case path[0] == "TransferEncoding":
			n.add("Transfer-Encoding")
		case path[0] == "Header" && len(path) == 1 && i == 1 && isIndex(args[0]):
			n.addConstant(args, 2)
		case path[0] == "Header" && len(path) == 2 && !slices.Contains(headerMethods, path[1]):
			n.add(path[1])
		case path[0] == "Header" && len(path) == 2 && i == 0:
			n.addConstant(args, 1)
		case path[0] == "Header" || path[0] == "Cookie" || path[0] == "Cookies":
			n.all = true
		}
	}
	for _, arg := range args {
		if path := memberPath(arg); slices.Contains(path, "TraceID") {
			n.add("Traceparent", "X-B3-Traceid", "B3")
		}
	}
}

func (n *needs) addConstant(args []parse.Node, i int) {
	if len(args) > i {
		if name, ok := args[i].(*parse.StringNode); ok {
			n.add(name.Text)
			return
		}
	}
	n.all = true
}

func isIndex(node parse.Node) bool {
	name, ok := node.(*parse.IdentifierNode)
	return ok && name.Ident == "index"
}

func memberPath(node parse.Node) []string {
	switch node := node.(type) {
	case *parse.FieldNode:
		return node.Ident
	case *parse.VariableNode:
		return node.Ident[1:]
	case *parse.ChainNode:
		return append(memberPath(node.Node), node.Field...)
	}
	return nil
}

package manifest

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Scalars are read as kubectl reads them (sigs.k8s.io/yaml): 017620 is octal,
// 0x1f90 hexadecimal, and 8_080 and 8080.0 are 8080.

// integer returns the value of a scalar that is a whole number. A string of digits is
// accepted too, because the port of a probe may be such a string. For any other node, ok
// is false.
func integer(n *yaml.Node) (i int, ok bool) {
	if n = resolve(n); n == nil || n.Kind != yaml.ScalarNode {
		return 0, false
	}
	switch n.ShortTag() {
	case "!!int":
		err := n.Decode(&i)
		return i, err == nil
	case "!!float":
		var f float64
		if n.Decode(&f) != nil || f != math.Trunc(f) || math.Abs(f) >= 1<<53 {
			return 0, false
		}
		return int(f), true
	case "!!str":
		i, err := strconv.Atoi(n.Value)
		return i, err == nil
	}
	return 0, false
}

// portNumber returns the value of a port number. It accepts the same nodes as the
// function integer, but returns an error for a number that is not a valid port. If n is
// not a number at all, ok is false and err is nil.
func portNumber(n *yaml.Node) (port int, ok bool, err error) {
	port, ok = integer(n)
	number := ok
	if n = resolve(n); n != nil && n.Kind == yaml.ScalarNode {
		number = number || n.ShortTag() == "!!int" || n.ShortTag() == "!!float"
	}
	if number && (!ok || port < 1 || port > 65535) {
		return 0, false, fmt.Errorf("%s: want a port number from 1 to 65535", n.Value)
	}
	return port, ok, nil
}

// isTrue reports whether a scalar is true in YAML 1.1.
func isTrue(n *yaml.Node) bool {
	return slices.Contains([]string{"true", "yes", "on", "y"}, strings.ToLower(text(n)))
}

// scalarJSON converts a scalar to JSON.
func scalarJSON(n *yaml.Node) string {
	switch n.ShortTag() {
	case "!!int", "!!float":
		if i, ok := integer(n); ok {
			return strconv.Itoa(i)
		}
		var f float64
		if n.Decode(&f) == nil && !math.IsInf(f, 0) && !math.IsNaN(f) {
			return strconv.FormatFloat(f, 'g', -1, 64)
		}
	case "!!bool":
		var b bool
		if n.Decode(&b) == nil {
			return strconv.FormatBool(b)
		}
	case "!!null":
		return "null"
	}
	return quote(n.Value)
}

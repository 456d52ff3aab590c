package manifest

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// redirect changes a Service so that its ports lead to the gate instead of the
// application. If change is false, it only reports such ports.
func (s *source) redirect(o manifestObject, workloads []workload, change bool) (notes []Note, err error) {
	selector := map[string]string{}
	if n := valueAt(o.node, "spec", "selector"); n == nil || n.Decode(&selector) != nil || len(selector) == 0 {
		return nil, nil
	}
	if valueAt(o.node, "metadata", "annotations", Annotation) != nil {
		return nil, nil
	}
	say := func(format string, values ...any) { notes = append(notes, Note{Text: fmt.Sprintf(format, values...)}) }
	first := len(s.edits)
	var r record
	for _, w := range workloads {
		if !w.matches(o, selector) {
			continue
		}
		ports := valueAt(o.node, "spec", "ports")
		if text(valueAt(o.node, "spec", "clusterIP")) == "None" {
			notes = append(notes, Note{Failed: true, Hazard: "headless", Text: fmt.Sprintf("it is headless, so clients connect to port %d of the pods themselves and bypass the gate: "+
				"remove clusterIP: None, or accept it with --accept headless (peers of a StatefulSet)", w.userPort)})
			return notes, nil
		}
		if err := s.checkShared("spec.ports", ports); err != nil {
			return notes, err
		}
		for _, port := range items(ports) {
			if !w.isTarget(port) {
				if name := text(valueAt(port, "targetPort")); name != portHTTP && change {
					say("port %s leads to %s, not to port %d of the application, and is unchanged", text(valueAt(port, "port")), cmp.Or(name, text(valueAt(port, "port"))), w.userPort)
				}
				continue
			}
			if !change {
				notes = append(notes, Note{Failed: true, Hazard: "services", Text: fmt.Sprintf(
					"port %s leads to the application and bypasses the gate: without --services=false it leads to the gate; --accept services accepts it", text(valueAt(port, "port")))})
				continue
			}
			if e := lookup(port, "targetPort"); e != nil && !e.merged && e.value.Kind == yaml.ScalarNode && s.shared[e.value] == "" && e.value.Anchor == "" {
				from := s.offset(e.value)
				to := s.scalarEnd(e.value, isFlow(port))
				r.was(portKey(port), s.text[from:to])
				s.replace(from, to, portHTTPText(isFlow(port)))
			} else if e == nil && port.Kind == yaml.MappingNode && len(port.Content) > 0 {
				r.was(portKey(port), "")
				s.insertFirst(port, object("targetPort", portHTTP))
			} else {
				notes = append(notes, Note{Failed: true, Hazard: "services",
					Text: fmt.Sprintf("port %s bypasses the gate: its targetPort is an alias or anchor, and is unchanged", text(valueAt(port, "port")))})
			}
		}
		break
	}
	if len(s.edits) == first {
		return notes, nil
	}
	if err := s.annotate(o, first, &r); err != nil {
		s.edits = s.edits[:first]
		return nil, failure{err}
	}
	return notes, nil
}

// portKey identifies a port of a Service.
func portKey(port *yaml.Node) string {
	key := text(valueAt(port, "port"))
	if protocol := text(valueAt(port, "protocol")); protocol != "" && protocol != "TCP" {
		key += "/" + protocol
	}
	return key
}

// maxTarget limits the length of a targetPort in a record.
const maxTarget = 256

// undoService restores the targets of ports that lead to the gate.
func (s *source) undoService(o manifestObject, r *record) error {
	all := slices.Compact(slices.Sorted(maps.Values(r.Was)))
	for _, port := range items(valueAt(o.node, "spec", "ports")) {
		e := lookup(port, "targetPort")
		if e == nil || text(e.value) != portHTTP {
			continue
		}
		was, ok := r.Was[portKey(port)]
		if !ok && len(all) == 1 {
			was, ok = all[0], true // the port number was edited, so use the only recorded target
		}
		switch err := s.checkShared("targetPort", e.value); {
		case err != nil || e.merged:
			return errors.Join(err, errors.New("targetPort: is used elsewhere"))
		case !ok || len(was) > maxTarget:
			return fmt.Errorf("line %d: the target of port %s before the injection is not known", port.Line, text(valueAt(port, "port")))
		case was == "":
			if err := s.remove(e, isFlow(port), nil); err != nil {
				return err
			}
		default:
			from := s.offset(e.value)
			s.replace(from, s.scalarEnd(e.value, isFlow(port)), was)
		}
	}
	return nil
}

// admit changes a NetworkPolicy so that rules for the application's port also allow the
// gate's port. If change is false, it only reports rules without the gate's port.
func (s *source) admit(o manifestObject, workloads []workload, change bool) (notes []Note, err error) {
	rules := valueAt(o.node, "spec", "ingress")
	if valueAt(o.node, "metadata", "annotations", Annotation) != nil || rules == nil {
		return nil, nil
	}
	selected := selectedBy(o, workloads)
	if len(selected) > maxSelected {
		return nil, failure{fmt.Errorf("it selects more than %d applications with different ports", maxSelected)}
	}
	first := len(s.edits)
	var r record
	for _, rule := range items(rules) {
		ports := lookup(rule, "ports")
		if ports == nil || len(items(resolve(ports.value))) == 0 {
			continue // a rule without ports already allows the gate's port
		}
		added := map[int]bool{}
		for _, w := range selected {
			if added[w.gatePort] || !allows(ports.value, w.userPort, w.names) || allows(ports.value, w.gatePort, []string{portHTTP}) {
				continue
			}
			added[w.gatePort] = true
			if !change {
				notes = append(notes, Note{Failed: true, Hazard: "network-policy",
					Text: fmt.Sprintf("allows port %d of the application and not port %d of the gate: no request would arrive", w.userPort, w.gatePort)})
				continue
			}
			err := s.checkShared("ports", ports.value)
			if ports.merged || ports.value.Kind == yaml.AliasNode {
				err = errors.New("its ports are an alias")
			}
			if err == nil {
				err = s.prepend(ports.value, object("port", w.gatePort))
			}
			if err != nil {
				s.edits = s.edits[:first]
				return nil, failure{fmt.Errorf("port %d of the gate is not allowed, and no request would arrive: %w", w.gatePort, err)}
			}
			if !slices.Contains(r.Ports, w.gatePort) {
				r.Ports = append(r.Ports, w.gatePort)
			}
		}
	}
	if len(s.edits) == first {
		return notes, nil
	}
	if err := s.annotate(o, first, &r); err != nil {
		s.edits = s.edits[:first]
		return nil, failure{err}
	}
	return notes, nil
}

// maxSelected is the maximum number of applications with different ports that one
// NetworkPolicy may select. It limits the time that the function admit takes, because
// admit checks each rule for each of these applications.
const maxSelected = 100

// selectedBy returns the workloads that a NetworkPolicy selects. If several of them have
// the same ports, it returns only the first.
func selectedBy(policy manifestObject, workloads []workload) (selected []workload) {
	seen := map[string]bool{}
	for _, w := range workloads {
		key := fmt.Sprint(w.userPort, w.gatePort, w.names)
		if !seen[key] && w.isSelected(policy) {
			seen[key] = true
			selected = append(selected, w)
		}
	}
	return selected
}

// undoPolicy removes the added ports from a NetworkPolicy.
func (s *source) undoPolicy(o manifestObject, r *record) error {
	for _, rule := range items(valueAt(o.node, "spec", "ingress")) {
		ports := valueAt(rule, "ports")
		for i, port := range items(ports) {
			n, ok := integer(valueAt(port, "port"))
			if !ok || !slices.Contains(r.Ports, n) || len(port.Content) != 2 {
				continue
			}
			if err := s.checkShared("ports", port); err != nil {
				return err
			}
			if len(ports.Content) < 2 {
				continue // keep the last port: without it, the rule would allow all ports
			}
			if err := s.removeElement(ports, i); err != nil {
				return err
			}
		}
	}
	return nil
}

// allows reports whether a NetworkPolicy's ports contain a TCP port, by number or name.
func allows(ports *yaml.Node, number int, names []string) bool {
	for _, port := range items(resolve(ports)) {
		if protocol := text(valueAt(port, "protocol")); protocol != "" && protocol != "TCP" {
			continue
		}
		value := valueAt(port, "port")
		n, ok := integer(value)
		end, hasEnd := integer(valueAt(port, "endPort"))
		switch {
		case value == nil, ok && n == number, ok && hasEnd && n <= number && number <= end, slices.Contains(names, text(value)):
			return true
		}
	}
	return false
}

// isSelected reports whether a NetworkPolicy applies to the pods of w.
func (w *workload) isSelected(policy manifestObject) bool {
	if !w.sameNamespace(policy) {
		return false
	}
	selector := valueAt(policy.node, "spec", "podSelector")
	labels := map[string]string{}
	if n := valueAt(selector, "matchLabels"); n != nil && n.Decode(&labels) != nil || !w.hasLabels(labels) {
		return false
	}
	for _, e := range items(valueAt(selector, "matchExpressions")) {
		value, exists := w.labels[text(valueAt(e, "key"))]
		listed := slices.ContainsFunc(items(valueAt(e, "values")), func(n *yaml.Node) bool { return text(n) == value })
		switch text(valueAt(e, "operator")) {
		case "In":
			listed = exists && listed
		case "NotIn":
			listed = !exists || !listed
		case "Exists":
			listed = exists
		case "DoesNotExist":
			listed = !exists
		}
		if !listed {
			return false
		}
	}
	return true
}

// sameNamespace reports whether o can be in the namespace of w. An object whose manifest
// has no namespace can be in any namespace.
func (w *workload) sameNamespace(o manifestObject) bool {
	return w.namespace == "" || o.namespace() == "" || w.namespace == o.namespace()
}

func (w *workload) matches(o manifestObject, selector map[string]string) bool {
	return w.sameNamespace(o) && w.hasLabels(selector)
}

func (w *workload) hasLabels(labels map[string]string) bool {
	for name, value := range labels {
		if w.labels[name] != value {
			return false
		}
	}
	return true
}

func portHTTPText(inFlow bool) string {
	if inFlow {
		return quote(portHTTP)
	}
	return portHTTP
}

// scalarEnd returns the offset after a one-line scalar.
func (s *source) scalarEnd(n *yaml.Node, inFlow bool) int {
	from := s.offset(n)
	switch c := s.text[from]; {
	case c == '"' || c == '\'':
		return s.quoteEnd(from) + 1
	case inFlow:
		return s.flowEnd(from)
	}
	return from + len(n.Value)
}

// isTarget reports whether a port of a Service leads to the application of w.
func (w *workload) isTarget(port *yaml.Node) bool {
	target := valueAt(port, "targetPort")
	if text(target) == "" {
		target = valueAt(port, "port")
	}
	n, ok := integer(target)
	return ok && n == w.userPort || slices.Contains(w.names, strings.TrimSpace(text(target)))
}

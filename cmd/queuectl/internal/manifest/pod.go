package manifest

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// GateName is the name of the gate's container.
const GateName = "queuegate"

// portHTTP is the name of the gate's serving port. Services refer to it.
const portHTTP = "queue-http"

// The grace period that Inject gives a pod is the sum of these three parts. The first
// two are defaults: settings of the gate override them.
const (
	quietSeconds   = 10  // quiet period of the drain (DRAIN_QUIET_SECONDS)
	timeoutSeconds = 300 // timeout of a request (REVISION_TIMEOUT_SECONDS)
	extraSeconds   = 20  // reserve, so that the grace period is not too short
)

// waitForDrain is the path of the application's preStop hook.
const waitForDrain = "/wait-for-drain?begins-within=10s"

// probeKinds are the probes that the kubelet sends to the gate after injection.
var probeKinds = []struct{ key, path string }{{"livenessProbe", "livez"}, {"startupProbe", "startupz"}}

type pod struct {
	*source
	options applied
	spec    *yaml.Node
	name    string // name of the workload
	prior   *prior // previous gate
	record  record

	containers *yaml.Node
	app        *yaml.Node
	appName    string
	userPort   int
	used       map[int]bool // ports that containers use
	ports      map[string]int
	readiness  []*yaml.Node // readiness probes with container names
	names      []string
	probers    []any  // path, probe, path, probe ...: the arguments for object()
	volume     string // name of the volume with the pod's annotations; "" = none
	tls        bool   // the application speaks TLS on its port
	notes      []Note
}

func (p *pod) say(format string, values ...any) {
	p.notes = append(p.notes, Note{Text: fmt.Sprintf(format, values...)})
}

func (p *pod) inject() error {
	if err := p.read(); err != nil {
		return err
	}
	p.checkPorts()
	for _, c := range items(p.containers) {
		if err := p.rewrite(c); err != nil {
			return fmt.Errorf("container %s: %w", text(valueAt(c, "name")), err)
		}
	}
	return p.addGate()
}

// read parses the pod. It returns an error if the pod cannot be edited.
func (p *pod) read() error {
	if p.spec == nil {
		return errors.New("it has no pod")
	}
	e := lookup(p.spec, "containers")
	if p.spec.Kind != yaml.MappingNode || e == nil || len(items(resolve(e.value))) == 0 {
		return errors.New("it has no containers")
	}
	p.containers = e.value
	if e.merged || e.value.Kind == yaml.AliasNode {
		return errors.New("its containers are an alias")
	}
	for _, n := range append([]*yaml.Node{p.spec, p.containers}, p.containers.Content...) {
		if n.Kind == yaml.AliasNode {
			return errors.New("a container is an alias")
		}
		if n != p.containers && n.Kind != yaml.MappingNode {
			return errors.New("a container is not a mapping")
		}
		if err := p.checkShared("containers", n); err != nil {
			return err
		}
	}
	p.used, p.ports = map[int]bool{}, map[string]int{}
	for _, list := range []string{"initContainers", "containers"} {
		for _, c := range items(valueAt(p.spec, list)) {
			if name := text(valueAt(c, "name")); name == GateName || name == "queue-proxy" {
				return fmt.Errorf("it already has a gate, the container %s", name)
			}
			for i, port := range items(valueAt(c, "ports")) {
				n, ok, err := portNumber(valueAt(port, "containerPort"))
				if err != nil {
					return failure{fmt.Errorf("container %s: ports[%d].containerPort %w", text(valueAt(c, "name")), i, err)}
				}
				if ok {
					p.used[n] = true
				}
			}
		}
	}
	return p.choose()
}

// choose selects the serving container and its port: the only container with a port
// whose name means HTTP, or else the first container with a port.
func (p *pod) choose() error {
	best := 0
	var ties []string
	for _, c := range items(p.containers) {
		name := text(valueAt(c, "name"))
		if p.options.Container != "" && name != p.options.Container {
			continue
		}
		port, rank := servingPort(c)
		switch {
		case p.app == nil && p.options.Container != "" || rank > best:
			p.app, p.userPort, best, ties = c, port, rank, []string{name}
		case rank == best && rank > 1:
			ties = append(ties, name)
		}
	}
	if p.app == nil && p.options.Container != "" {
		return fmt.Errorf("it has no container %s (--container)", p.options.Container)
	}
	if len(ties) > 1 {
		return failure{fmt.Errorf("the containers %s all have a port whose name means HTTP: select one with --container", strings.Join(ties, ", "))}
	}
	if p.app == nil {
		p.app = items(p.containers)[0]
	}
	if p.appName = text(valueAt(p.app, "name")); p.appName == "" {
		return errors.New("its container has no name")
	}
	if p.options.UserPort != 0 {
		p.userPort = p.options.UserPort
	}
	if p.userPort == 0 {
		return fmt.Errorf("container %s has no port: set one with --user-port", p.appName)
	}
	p.used[p.userPort] = true
	return nil
}

// httpNames are names of ports that mean HTTP without TLS.
var httpNames = []string{"http", "http1", "h2c", "http2", "grpc", "web"}

// servingPort returns the port that most likely serves HTTP. The result rank says how
// likely that is: 3 if the name of the port means HTTP, 2 if the name is https, and 1 for
// any other TCP port. Without a TCP port, both results are 0. Among ports of the same
// rank, the first is chosen.
func servingPort(container *yaml.Node) (port, rank int) {
	for _, entry := range items(valueAt(container, "ports")) {
		n, ok := integer(valueAt(entry, "containerPort"))
		if protocol := text(valueAt(entry, "protocol")); !ok || protocol != "" && protocol != "TCP" {
			continue
		}
		is := 1
		switch name := text(valueAt(entry, "name")); {
		case slices.Contains(httpNames, name):
			is = 3
		case name == "https":
			is = 2
		}
		if is > rank {
			port, rank = n, is
		}
	}
	return port, rank
}

// userPortNames returns the names by which Services can refer to the application's port.
// If several ports of the pod have the same name, Kubernetes uses the first of them. So
// userPortNames omits a name whose first port is another one.
func (p *pod) userPortNames() (names []string) {
	seen := map[string]bool{}
	for _, c := range items(p.containers) {
		for _, entry := range items(valueAt(c, "ports")) {
			n, ok := integer(valueAt(entry, "containerPort"))
			name := text(valueAt(entry, "name"))
			if name != "" && !seen[name] && ok && c == p.app && n == p.userPort {
				names = append(names, name)
			}
			seen[name] = true
		}
	}
	return names
}

// checkPorts sets p.tls if the application's port is named https. It reports each
// hostPort that bypasses the gate.
func (p *pod) checkPorts() {
	for _, c := range items(p.containers) {
		for _, entry := range items(valueAt(c, "ports")) {
			if n, ok := integer(valueAt(entry, "containerPort")); !ok || n != p.userPort {
				continue
			}
			p.tls = p.tls || c == p.app && text(valueAt(entry, "name")) == "https"
			if host, ok := integer(valueAt(entry, "hostPort")); ok && host != 0 {
				p.notes = append(p.notes, Note{Failed: true, Text: fmt.Sprintf(
					"container %s: hostPort %d of the node leads to the application and bypasses the gate: remove it, or accept it with --accept host-port", text(valueAt(c, "name")), host),
					Hazard: "host-port"})
			}
		}
	}
}

// port selects a port number for the gate. The result is the usual number, which is the
// parameter. If a container uses that number, the result is the next unused one. Later
// calls with the same parameter return the same result.
func (p *pod) port(usual int) int {
	if n, ok := p.ports[strconv.Itoa(usual)]; ok {
		return n
	}
	n := usual
	for p.used[n] {
		n++
	}
	p.used[n] = true
	p.ports[strconv.Itoa(usual)] = n
	return n
}

// rewrite moves a container's probes to the gate.
func (p *pod) rewrite(c *yaml.Node) error {
	name := text(valueAt(c, "name"))
	var preStop *yaml.Node
	if c == p.app {
		var err error
		if preStop, err = p.preStop(c); err != nil {
			return err
		}
	}
	moved := false
	if e := lookup(c, "readinessProbe"); e != nil && !isEmpty(resolve(e.value)) {
		probe, err := p.resolved(c, e.value)
		switch {
		case err != nil:
			p.say("container %s: its readinessProbe is kept by the kubelet: %v", name, err)
		case p.editable(c, e) != nil:
			p.say("container %s: its readinessProbe is kept by the kubelet: %v", name, p.editable(c, e))
		default:
			p.checkScheme(c, probe)
			if text := p.textOf(e, isFlow(c)); text != computed("readinessProbe", probe) {
				p.record.was(name+"/readinessProbe", text)
			}
			if preStop == nil {
				if p.record.Positions == nil {
					p.record.Positions = map[string]position{}
				}
				p.record.Positions[name+"/readinessProbe"] = p.positionOf(e, isFlow(c))
			}
			if err := p.remove(e, isFlow(c), preStop); err != nil {
				return err
			}
			moved = true
			p.readiness, p.names = append(p.readiness, probe), append(p.names, name)
		}
	}
	if preStop != nil && !moved {
		key := c.Content[0]
		if len(c.Content) > 2 {
			key = c.Content[2] // insert before the second key, because the first is usually "name"
		}
		p.insertBefore(key, isFlow(c), preStop)
	}
	for _, kind := range probeKinds {
		if e := lookup(c, kind.key); e != nil && !isEmpty(resolve(e.value)) {
			if err := p.rewriteProbe(c, e, "/app-health/"+name+"/"+kind.path); err != nil {
				p.say("container %s: its %s is unchanged: %v", name, kind.key, err)
			}
		}
	}
	return nil
}

// preStop adds a preStop hook to the container c. With the hook, the application runs
// until its requests have ended. If c has no lifecycle, preStop returns a mapping with
// the key lifecycle, which the caller must insert into c. Otherwise it returns nil: it
// has added the hook to the lifecycle of c, or has reported why it could not.
func (p *pod) preStop(c *yaml.Node) (*yaml.Node, error) {
	hook := object("preStop", object("httpGet", object("path", waitForDrain, "port", p.port(8022))))
	e := lookup(c, "lifecycle")
	switch {
	case e == nil:
		return object("lifecycle", hook), nil
	case valueAt(e.value, "preStop") != nil:
		p.say("container %s: its preStop hook is kept: it should wait for the drain by calling /wait-for-drain on port %d", p.appName, p.port(8022))
	case p.editable(c, e) != nil || isEmpty(e.value) || e.value.Kind != yaml.MappingNode:
		p.say("container %s: its lifecycle is kept without /wait-for-drain", p.appName)
	default:
		p.insertFirst(e.value, hook)
	}
	return nil, nil
}

// editable returns an error if the value of a key cannot be edited in place.
func (p *pod) editable(in *yaml.Node, e *entry) error {
	if e.merged {
		return errors.New("it comes from a merge key (<<)")
	}
	return p.checkShared("it", e.value)
}

// handlerOf returns the handler of a probe, or an error if the gate cannot run it.
func handlerOf(probe *yaml.Node) (*entry, error) {
	for _, kind := range []string{"httpGet", "tcpSocket", "grpc"} {
		if e := lookup(probe, kind); e != nil {
			return e, nil
		}
	}
	if valueAt(probe, "exec") != nil {
		return nil, errors.New("it is an exec probe, which runs in the container")
	}
	return nil, errors.New("it has no handler")
}

// resolved returns a copy of a probe with expanded aliases and a port number.
func (p *pod) resolved(c, probe *yaml.Node) (*yaml.Node, error) {
	handler, err := handlerOf(probe)
	if err != nil {
		return nil, err
	}
	if host := text(valueAt(handler.value, "host")); host != "" {
		return nil, fmt.Errorf("it goes to the host %s", host)
	}
	copied := deepCopy(probe)
	port := lookup(valueAt(copied, handler.key.Value), "port")
	if port == nil {
		if handler.key.Value == "httpGet" {
			return nil, errors.New("it has no port")
		}
		return copied, nil
	}
	number, ok := integer(port.value)
	for _, entry := range items(valueAt(c, "ports")) {
		if !ok && text(valueAt(entry, "name")) == text(port.value) {
			number, ok = integer(valueAt(entry, "containerPort"))
		}
	}
	if ok {
		port.value.Tag, port.value.Value, port.value.Style = "!!int", strconv.Itoa(number), 0
		return copied, nil
	}
	return nil, fmt.Errorf("the container has no port called %q", text(port.value))
}

// deepCopy returns a copy in which aliases and merge keys are expanded.
func deepCopy(n *yaml.Node) *yaml.Node {
	n = resolve(n)
	c := &yaml.Node{Kind: n.Kind, Tag: n.Tag, Value: n.Value}
	keys := map[string]bool{} // explicit keys, which override merged keys
	for i := 0; n.Kind == yaml.MappingNode && i < len(n.Content); i += 2 {
		if n.Content[i].Tag != "!!merge" {
			keys[n.Content[i].Value] = true
		}
	}
	for i, child := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 1 && n.Content[i-1].Tag == "!!merge" {
			c.Content = c.Content[:len(c.Content)-1]
			bases := []*yaml.Node{child}
			if child.Kind == yaml.SequenceNode {
				bases = child.Content
			}
			for _, base := range bases {
				for _, pair := range slices.Collect(slices.Chunk(deepCopy(base).Content, 2)) {
					if !keys[pair[0].Value] {
						keys[pair[0].Value] = true
						c.Content = append(c.Content, pair...)
					}
				}
			}
			continue
		}
		c.Content = append(c.Content, deepCopy(child))
	}
	return c
}

// rewriteProbe points a kubelet's probe to the gate, which probes the application.
func (p *pod) rewriteProbe(c *yaml.Node, e *entry, path string) error {
	if e.merged {
		return errors.New("it comes from a merge key (<<)")
	}
	probe, err := p.resolved(c, e.value)
	if err != nil {
		return err
	}
	handler, err := handlerOf(probe)
	if err != nil {
		return err
	}
	instead := object("httpGet", object("path", path, "port", p.port(8022)))
	prober := object(handler.key.Value, handler.value, "timeoutSeconds", valueAt(probe, "timeoutSeconds"))
	if handler.key.Value != "httpGet" && lookup(handler.value, "port") == nil {
		return errors.New("it has no port")
	}
	p.checkScheme(c, probe)
	name := text(valueAt(c, "name")) + "/" + e.key.Value
	source, _ := handlerOf(e.value)
	if e.value.Kind == yaml.AliasNode || source.merged || p.shared[e.value] != "" || p.shared[source.value] != "" {
		if e.value.Anchor != "" || p.shared[e.value] != "" && e.value.Kind != yaml.AliasNode {
			return p.checkShared("it", e.value)
		}
		// Replace the value by a copy, because an alias refers to it.
		copied := object()
		for i := 0; i < len(probe.Content); i += 2 {
			if probe.Content[i].Value != handler.key.Value {
				copied.Content = append(copied.Content, probe.Content[i], probe.Content[i+1])
			}
		}
		copied.Content = append(copied.Content, instead.Content...)
		p.record.was(name+" whole", p.textOf(e, isFlow(c)))
		if err := p.remove(e, isFlow(c), object(e.key.Value, copied)); err != nil {
			return err
		}
	} else {
		if text := p.textOf(source, isFlow(e.value)); text != computed(handler.key.Value, handler.value) {
			p.record.was(name, text)
		}
		if err := p.remove(source, isFlow(e.value), instead); err != nil {
			return err
		}
	}
	p.probers = append(p.probers, path, prober)
	return nil
}

// checkScheme sets p.tls if the application's probe uses TLS.
func (p *pod) checkScheme(c, probe *yaml.Node) {
	n, ok := integer(valueAt(probe, "httpGet", "port"))
	p.tls = p.tls || c == p.app && ok && n == p.userPort && strings.EqualFold(text(valueAt(probe, "httpGet", "scheme")), "HTTPS")
}

// graceSeconds returns the maximum duration of a drain in seconds.
func (p *pod) graceSeconds() int {
	seconds := extraSeconds
	for _, s := range []struct {
		setting  string
		standard int
	}{{"REVISION_TIMEOUT_SECONDS", timeoutSeconds}, {"DRAIN_QUIET_SECONDS", quietSeconds}} {
		n, err := strconv.ParseFloat(p.options.Set[s.setting], 64)
		if err != nil || n < 0 || n > 1<<30 {
			n = float64(s.standard)
		}
		seconds += int(math.Ceil(n))
	}
	return seconds
}

// addGate adds the gate as the first init container, and extends the grace period.
func (p *pod) addGate() error {
	var grace []any
	if e := lookup(p.spec, "terminationGracePeriodSeconds"); e == nil {
		p.record.Grace = p.graceSeconds()
		grace = []any{"terminationGracePeriodSeconds", p.record.Grace}
	} else if n, ok := integer(e.value); ok && n < p.graceSeconds() {
		p.say("terminationGracePeriodSeconds is %d: a drain may take %d (the longest request and a quiet period)", n, p.graceSeconds())
	}
	if isTrue(valueAt(p.spec, "hostNetwork")) {
		p.say("hostNetwork: the gate's ports are those of the node")
	}
	containers, list := lookup(p.spec, "containers"), lookup(p.spec, "initContainers")
	inFlow := isFlow(p.spec)
	volumes, err := p.addVolume()
	if err != nil {
		return err
	}
	gate := p.merged(p.gate(), inFlow || list != nil && (isEmpty(list.value) || isFlow(list.value)))
	defer p.keepText(len(p.edits))
	switch {
	case list == nil:
		p.insertBefore(containers.key, inFlow, object(append(append(grace, volumes...), "initContainers", []*yaml.Node{gate})...))
		return nil
	case list.merged || list.value.Kind == yaml.AliasNode:
		return errors.New("its initContainers are an alias")
	case !isEmpty(list.value) && list.value.Kind != yaml.SequenceNode:
		return errors.New("its initContainers are not a sequence")
	}
	if err := p.checkShared("initContainers", list.value); err != nil {
		return err
	}
	if before := append(grace, volumes...); before != nil {
		p.insertBefore(list.key, inFlow, object(before...))
	}
	if isEmpty(list.value) {
		p.record.was("initContainers", p.emptyText(list))
		p.fill(list, &yaml.Node{Kind: yaml.SequenceNode, Content: []*yaml.Node{gate}}, inFlow)
		return nil
	}
	return p.prepend(list.value, gate)
}

// podInfoDir is the directory in which Knative mounts the pod's annotations
// (mount-podinfo). It is also the default of ANNOTATIONS_FILE.
const podInfoDir = "/etc/podinfo"

// addVolume adds a volume with the pod's annotations if Options.LiveSettings is set. If
// the spec has no key "volumes", addVolume only returns that key and its value (the
// result pair), and the caller must insert them. Otherwise the result pair is nil.
func (p *pod) addVolume() (pair []any, err error) {
	if !p.options.LiveSettings {
		return nil, nil
	}
	list := lookup(p.spec, "volumes")
	usedNames := map[string]bool{}
	if list != nil {
		for _, v := range items(resolve(list.value)) {
			usedNames[text(valueAt(v, "name"))] = true
		}
	}
	for p.volume = GateName + "-podinfo"; usedNames[p.volume]; {
		p.volume += "-x"
	}
	p.record.Volume = p.volume
	volume := object("name", p.volume, "downwardAPI", object("items", []*yaml.Node{
		object("path", "annotations", "fieldRef", object("fieldPath", "metadata.annotations")),
	}))
	switch {
	case list == nil:
		return []any{"volumes", []*yaml.Node{volume}}, nil
	case list.merged || list.value.Kind == yaml.AliasNode:
		return nil, errors.New("its volumes are an alias")
	case !isEmpty(list.value) && list.value.Kind != yaml.SequenceNode:
		return nil, errors.New("its volumes are not a sequence")
	}
	if err := p.checkShared("volumes", list.value); err != nil {
		return nil, err
	}
	if isEmpty(list.value) {
		p.record.was("volumes", p.emptyText(list))
		p.fill(list, &yaml.Node{Kind: yaml.SequenceNode, Content: []*yaml.Node{volume}}, isFlow(p.spec))
		return nil, nil
	}
	return nil, p.prepend(list.value, volume)
}

// gate returns the gate's container, as in config/kubernetes/deployment.yaml.
func (p *pod) gate() *yaml.Node {
	serving, admin, metrics := p.port(8012), p.port(8022), p.port(9091)
	var env []*yaml.Node
	written := map[string]bool{}
	set := func(name, value string) {
		if override, ok := p.options.Set[name]; ok {
			value = override
		}
		written[name] = true
		env = append(env, object("name", name, "value", value))
	}
	from := func(name, path string) {
		if _, ok := p.options.Set[name]; ok {
			set(name, "")
			return
		}
		env = append(env, object("name", name, "valueFrom", object("fieldRef", object("fieldPath", path))))
	}
	for _, port := range []struct {
		usual   int
		setting string
	}{{8012, "QUEUE_SERVING_PORT"}, {8112, "QUEUE_SERVING_TLS_PORT"}, {8022, "ADMIN_PORT"}, {9090, "AUTOSCALER_METRICS_PORT"},
		{9091, "METRICS_PORT"}, {8023, "STATUS_PORT"}} {
		if n := p.port(port.usual); n != port.usual {
			set(port.setting, strconv.Itoa(n))
		}
	}
	set("USER_PORT", strconv.Itoa(p.userPort))
	if _, ok := p.options.Set["CONTAINER_CONCURRENCY"]; ok {
		set("CONTAINER_CONCURRENCY", "")
	}
	if _, chosen := p.options.Set["UPSTREAM_TLS"]; p.tls && !chosen {
		set("UPSTREAM_TLS", "true")
		if p.unverified() {
			set("UPSTREAM_TLS_INSECURE", "true")
			p.say("container %s uses TLS: UPSTREAM_TLS is set, and its certificate is not verified; --set UPSTREAM_TLS_CA=FILE verifies it", p.appName)
		}
	}
	switch len(p.readiness) {
	case 0:
	case 1:
		set("SERVING_READINESS_PROBE", compact(p.readiness[0]))
		set("CONTAINER_NAMES", p.names[0])
	default:
		set("SERVING_READINESS_PROBE", compact(&yaml.Node{Kind: yaml.SequenceNode, Content: p.readiness}))
		set("ENABLE_MULTI_CONTAINER_PROBES", "true")
		set("CONTAINER_NAMES", strings.Join(p.names, ","))
	}
	if p.probers != nil {
		set("KUBE_APP_PROBERS", compact(object(p.probers...)))
	}
	set("DRAIN_QUIET_SECONDS", strconv.Itoa(quietSeconds))
	if p.name != "" {
		set("SERVING_SERVICE", p.name)
		set("SERVING_REVISION", p.name)
	}
	from("SERVING_NAMESPACE", "metadata.namespace")
	from("SERVING_POD", "metadata.name")
	for _, name := range sortedKeys(p.options.Set) {
		if !written[name] {
			set(name, "")
		}
	}
	var mounts any
	if p.volume != "" {
		mounts = []*yaml.Node{object("name", p.volume, "mountPath", podInfoDir, "readOnly", true)}
	}
	named := func(name string, port int) *yaml.Node { return object("name", name, "containerPort", port) }
	alive := func() *yaml.Node { return object("path", "/health/alive", "port", admin) }
	return object(
		"name", GateName,
		"image", p.options.Image,
		"restartPolicy", "Always",
		"env", env,
		"volumeMounts", mounts,
		"ports", []*yaml.Node{named(portHTTP, serving), named("queue-admin", admin), named("queue-metrics", metrics)},
		"startupProbe", object("periodSeconds", 1, "timeoutSeconds", 5, "failureThreshold", 60, "httpGet", alive()),
		"livenessProbe", object("periodSeconds", 10, "timeoutSeconds", 5, "httpGet", alive()),
		"readinessProbe", object("periodSeconds", 1, "timeoutSeconds", 5, "failureThreshold", 3, "httpGet", object("path", "/", "port", serving,
			"httpHeaders", []*yaml.Node{object("name", "K-Network-Probe", "value", "queue")})),
		"lifecycle", object("preStop", object("exec", object("command", []string{"queue", "drain"}))),
		"resources", p.options.resources(),
		"securityContext", object("allowPrivilegeEscalation", false, "readOnlyRootFilesystem", true,
			"capabilities", object("drop", []string{"ALL"}), "runAsNonRoot", true, "runAsUser", 65532, "runAsGroup", 65532),
	)
}

// unverified reports whether no setting configures the verification of the
// application's certificate.
func (p *pod) unverified() bool {
	for _, name := range []string{"UPSTREAM_TLS_CA", "UPSTREAM_TLS_INSECURE", "ROOT_CA"} {
		if _, ok := p.options.Set[name]; ok {
			return false
		}
	}
	return true
}

// standardResources are the gate's resources in config/kubernetes/deployment.yaml.
var standardResources = map[string]string{"requests.cpu": "25m", "requests.memory": "32Mi", "limits.cpu": "500m", "limits.memory": "128Mi"}

// resources returns the gate's requests and limits, without empty quantities.
func (a *applied) resources() *yaml.Node {
	all := maps.Clone(standardResources)
	maps.Copy(all, a.Resources)
	kinds := []any{}
	for _, kind := range []string{"requests", "limits"} {
		var pairs []any
		for _, name := range resourceNames {
			if quantity := all[kind+"."+name]; quantity != "" {
				pairs = append(pairs, name, quantity)
			}
		}
		if pairs != nil {
			kinds = append(kinds, kind, object(pairs...))
		}
	}
	return object(kinds...)
}

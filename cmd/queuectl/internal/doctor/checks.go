package doctor

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Finding is a problem or a warning.
type Finding struct {
	Object  string // deployment/web
	Warning bool   // the finding may be intended, so it is not an error
	Text    string // the problem and its solution
	Hazard  string // kind of problem: "--accept HAZARD" makes the finding a warning
}

func (f Finding) String() string {
	if f.Warning {
		return f.Object + ": warning: " + f.Text
	}
	return f.Object + ": error: " + f.Text
}

// Examine checks all gates. It returns the findings and the number of pods.
func (o *Objects) Examine() (findings []Finding, pods int) {
	for _, p := range o.pods {
		e := examination{pod: p, objects: o}
		if p.gate == nil {
			e.fault("has no gate: queuectl inject puts it in")
		} else {
			for _, check := range checks {
				check(&e)
			}
		}
		findings = append(findings, e.findings...)
	}
	return findings, len(o.pods)
}

type examination struct {
	*pod
	objects  *Objects
	findings []Finding
}

func (e *examination) fault(format string, values ...any) {
	e.findings = append(e.findings, Finding{Object: e.object, Text: fmt.Sprintf(format, values...)})
}

func (e *examination) warn(format string, values ...any) {
	e.findings = append(e.findings, Finding{Object: e.object, Warning: true, Text: fmt.Sprintf(format, values...)})
}

var checks = []func(*examination){
	(*examination).containerKind, (*examination).readiness, (*examination).applicationProbes, (*examination).servicesLead, (*examination).policies,
	(*examination).hostPorts, (*examination).tls, (*examination).grace,
	(*examination).hooks, (*examination).user, (*examination).ports, (*examination).serviceLinks, (*examination).running,
}

// containerKind reports a gate in the wrong kind of container. With the gate in an
// ordinary init container, the pod would never start. With the gate in an ordinary
// container of a job, the job would never complete.
func (e *examination) containerKind() {
	switch {
	case e.isInit && e.gate.RestartPolicy != "Always":
		e.fault("the gate is an init container without restartPolicy: Always: the pod never starts")
	case !e.isInit && e.job:
		e.fault("the gate is an ordinary container of a job, which therefore never completes: make it an init container with restartPolicy: Always")
	}
}

// readiness checks the probes of the gate's container.
func (e *examination) readiness() {
	if e.gate.ReadinessProbe == nil {
		e.fault("the gate has no readinessProbe: the pod counts as ready before its application is: GET / on port %d with K-Network-Probe: queue", e.servingPort())
	} else if !e.asksTheGate(e.gate.ReadinessProbe) {
		e.fault("the gate's readinessProbe does not check the application: GET / on port %d with K-Network-Probe: queue, or /health/ready on port %d",
			e.servingPort(), e.adminPort())
	}
	if e.settings["SERVING_READINESS_PROBE"] == "none" {
		e.warn("SERVING_READINESS_PROBE is none: the application always counts as ready")
	}
	if probe := e.gate.LivenessProbe; probe != nil && e.asksTheGate(probe) {
		e.fault("the gate's livenessProbe checks the application: the gate is restarted while the application is not ready: /health/alive on port %d", e.adminPort())
	}
}

// asksTheGate reports whether a probe checks the application through the gate.
func (e *examination) asksTheGate(p *probe) bool {
	switch {
	case p.Exec != nil:
		command := strings.Join(p.Exec.Command, " ")
		return strings.Contains(command, "queue probe") || strings.Contains(command, "-probe-period")
	case p.HTTPGet == nil:
		return false
	}
	switch e.port(e.gate, p.HTTPGet.Port) {
	case e.servingPort():
		for _, h := range p.HTTPGet.HTTPHeaders {
			if strings.EqualFold(h.Name, "K-Network-Probe") && h.Value == "queue" {
				return true
			}
		}
	case e.adminPort():
		return p.HTTPGet.Path == "/health/ready" || p.HTTPGet.Path == "/healthz" || strings.HasSuffix(p.HTTPGet.Path, "/readyz")
	}
	return false
}

// applicationProbes checks the probes that the kubelet sends to the application.
func (e *examination) applicationProbes() {
	for _, c := range e.applications() {
		for _, own := range []struct {
			name  string
			probe *probe
		}{{"readinessProbe", c.ReadinessProbe}, {"livenessProbe", c.LivenessProbe}, {"startupProbe", c.StartupProbe}} {
			name, p := own.name, own.probe
			if p == nil || p.HTTPGet == nil && p.TCPSocket == nil && p.GRPC == nil {
				continue
			}
			switch {
			case p.HTTPGet != nil && e.port(c, p.HTTPGet.Port) == e.servingPort():
				e.fault("container %s: its %s goes to the gate's serving port, which rejects probes of the kubelet with 400: /app-health/%s/... on port %d",
					c.Name, name, c.Name, e.adminPort())
			case name == "readinessProbe" && !e.asksTheGate(p):
				e.warn("container %s: the kubelet runs its readinessProbe, which the gate does not use: SERVING_READINESS_PROBE", c.Name)
			case p.HTTPGet != nil && e.port(c, p.HTTPGet.Port) == e.adminPort() && strings.HasPrefix(p.HTTPGet.Path, "/app-health/") &&
				!strings.Contains(e.settings["KUBE_APP_PROBERS"]+e.settings["ISTIO_KUBE_APP_PROBERS"], `"`+p.HTTPGet.Path+`"`):
				e.fault("container %s: its %s goes to %s, which KUBE_APP_PROBERS does not have: it gets 404", c.Name, name, p.HTTPGet.Path)
			}
		}
	}
}

// servicesLead reports Services that send traffic directly to the application.
func (e *examination) servicesLead() {
	for _, s := range e.objects.services {
		if len(s.Selector) == 0 || !e.inNamespace(s.namespace) || !e.matches(s.Selector) {
			continue
		}
		if s.ClusterIP == "None" {
			e.fault("Service %s is headless: clients connect to port %d of the pods themselves and bypass the gate: remove clusterIP: None, "+
				"unless only peers of a StatefulSet use it (--accept headless)", s.name, e.userPort())
			e.last().Hazard = "headless"
			continue
		}
		for _, port := range s.Ports {
			target := port.TargetPort
			if target == nil {
				target = port.Port
			}
			if name, ok := target.(string); ok && e.sharedName(name) {
				e.fault("Service %s: its port %v leads to %s, a port of more than one container; Kubernetes takes the first: use a number or queue-http", s.name, port.Port, name)
				continue
			}
			switch n := e.port(nil, target); {
			case n == e.userPort():
				e.fault("Service %s bypasses the gate: its port %v leads to %v, the application's: targetPort %d", s.name, port.Port, target, e.servingPort())
			case n == 0:
				e.fault("Service %s: its port %v leads to %v, which no container has", s.name, port.Port, target)
			}
		}
	}
}

// sharedName reports whether more than one container has a port of this name.
func (e *examination) sharedName(name string) bool {
	found := 0
	for _, c := range slices.Concat(e.spec.InitContainers, e.spec.Containers) {
		for _, entry := range c.Ports {
			if entry.Name == name {
				found++
				break
			}
		}
	}
	return found > 1
}

// policies reports NetworkPolicies that allow the port of the application, but not the
// port of the gate.
func (e *examination) policies() {
	var blind *policy
	for i := range e.objects.policies {
		p := &e.objects.policies[i]
		if !e.inNamespace(p.namespace) || !e.isSelected(p) {
			continue
		}
		for _, rule := range p.Ingress {
			switch {
			case len(rule.Ports) == 0 || e.allows(rule.Ports, e.servingPort()):
				return
			case e.allows(rule.Ports, e.userPort()):
				blind = p
			}
		}
	}
	if blind != nil {
		e.fault("NetworkPolicy %s allows port %d of the application and not port %d of the gate: no request arrives", blind.name, e.userPort(), e.servingPort())
	}
}

func (e *examination) allows(ports []struct {
	Protocol string
	Port     any
	EndPort  int
}, number int) bool {
	for _, p := range ports {
		if p.Protocol != "" && p.Protocol != "TCP" {
			continue
		}
		if n := e.port(nil, p.Port); p.Port == nil || n == number || n < number && number <= p.EndPort {
			return true
		}
	}
	return false
}

func (e *examination) isSelected(p *policy) bool {
	if !e.matches(p.PodSelector.MatchLabels) || len(p.PolicyTypes) > 0 && !slices.Contains(p.PolicyTypes, "Ingress") {
		return false
	}
	for _, x := range p.PodSelector.MatchExpressions {
		value, exists := e.labels[x.Key]
		listed := exists && slices.Contains(x.Values, value)
		if x.Operator == "In" && !listed || x.Operator == "NotIn" && listed || x.Operator == "Exists" && !exists || x.Operator == "DoesNotExist" && exists {
			return false
		}
	}
	return true
}

// inNamespace reports whether an object with this namespace can be in the pod's
// namespace. An object without a namespace can be in any.
func (e *examination) inNamespace(name string) bool {
	return name == "" || e.space == "" || name == e.space
}

// hostPorts reports ports of the node that bypass the gate.
func (e *examination) hostPorts() {
	for _, c := range e.applications() {
		for _, entry := range c.Ports {
			if entry.HostPort != 0 && entry.ContainerPort == e.userPort() {
				e.fault("container %s: hostPort %d of the node bypasses the gate: remove it, or give it to the gate's port %d (or --accept host-port)", c.Name, entry.HostPort, e.servingPort())
				e.last().Hazard = "host-port"
			}
		}
	}
}

// tls reports an application that speaks TLS if the gate does not.
func (e *examination) tls() {
	if v := strings.ToLower(e.settings["UPSTREAM_TLS"]); v != "" && v != "off" {
		return
	}
	reason := ""
	for _, c := range e.applications() {
		for _, entry := range c.Ports {
			if entry.Name == "https" && entry.ContainerPort == e.userPort() {
				reason = "its port is named https"
			}
		}
		for _, p := range []*probe{c.ReadinessProbe, c.LivenessProbe, c.StartupProbe} {
			if p != nil && p.HTTPGet != nil && p.HTTPGet.Scheme == "HTTPS" && e.port(c, p.HTTPGet.Port) == e.userPort() {
				reason = "its probe has the scheme HTTPS"
			}
		}
	}
	for _, get := range e.movedProbes() {
		if get.Scheme == "HTTPS" && (get.Port == nil || e.port(nil, get.Port) == e.userPort() || e.port(nil, get.Port) == 0) {
			reason = "its probe has the scheme HTTPS"
		}
	}
	if reason != "" {
		e.fault("the application uses TLS (%s), but the gate connects without TLS: requests fail with 502: UPSTREAM_TLS=true", reason)
	}
}

// movedProbes returns the application's HTTP probes in the gate's settings.
func (e *examination) movedProbes() (all []httpGet) {
	type handler struct{ HTTPGet *httpGet }
	var one handler
	var list []handler
	var byPath map[string]handler
	if text := e.settings["SERVING_READINESS_PROBE"]; json.Unmarshal([]byte(text), &one) == nil {
		list = append(list, one)
	} else {
		_ = json.Unmarshal([]byte(text), &list)
	}
	_ = json.Unmarshal([]byte(e.settings["KUBE_APP_PROBERS"]), &byPath)
	for _, h := range byPath {
		list = append(list, h)
	}
	for _, h := range list {
		if h.HTTPGet != nil {
			all = append(all, *h.HTTPGet)
		}
	}
	return all
}

func (e *examination) last() *Finding { return &e.findings[len(e.findings)-1] }

func (e *examination) matches(selector map[string]string) bool {
	for name, value := range selector {
		if e.labels[name] != value {
			return false
		}
	}
	return true
}

func (e *examination) grace() {
	period := 30.0
	if n := e.spec.TerminationGracePeriodSeconds; n != nil {
		period = float64(*n)
	}
	quiet, longest := e.number("DRAIN_QUIET_SECONDS", 30), e.number("REVISION_TIMEOUT_SECONDS", 300)
	switch {
	case period <= quiet:
		e.fault("terminationGracePeriodSeconds is %v: the drain is cut before its quiet period of %v s (DRAIN_QUIET_SECONDS) is over", period, quiet)
	case period < quiet+longest:
		e.warn("terminationGracePeriodSeconds is %v: requests may take until %v (DRAIN_QUIET_SECONDS and REVISION_TIMEOUT_SECONDS), and are cut", period, quiet+longest)
	}
}

// hooks checks the preStop hooks, which begin the drain.
func (e *examination) hooks() {
	hook := e.gate.Lifecycle.PreStop
	if e.isInit && (hook == nil || hook.Exec == nil || !strings.Contains(strings.Join(hook.Exec.Command, " "), "drain")) {
		e.fault("the gate is a native sidecar without a preStop hook: it gets SIGTERM only after the application has exited: exec [queue, drain]")
	}
	applications := e.applications()
	known := slices.ContainsFunc(applications, func(c *container) bool { return declaresPort(c, e.userPort()) })
	for _, c := range applications {
		if c.Lifecycle.PreStop == nil && (!known || declaresPort(c, e.userPort())) {
			e.warn("container %s has no preStop hook: it ends while requests are in progress: httpGet /wait-for-drain?begins-within=10s on port %d", c.Name, e.adminPort())
		}
	}
}

// declaresPort reports whether a container declares the port.
func declaresPort(c *container, port int) bool {
	for _, entry := range c.Ports {
		if entry.ContainerPort == port {
			return true
		}
	}
	return false
}

// user checks the user of the gate's container.
func (e *examination) user() {
	pod, own := e.spec.SecurityContext, e.gate.SecurityContext
	nonRoot := own.RunAsNonRoot
	if nonRoot == nil {
		nonRoot = pod.RunAsNonRoot
	}
	user := own.RunAsUser
	if user == nil {
		user = pod.RunAsUser
	}
	switch {
	case nonRoot != nil && *nonRoot && user == nil:
		e.warn("runAsNonRoot without a numeric runAsUser: the kubelet starts the gate only if its image names its user by number: runAsUser: 65532")
	case nonRoot != nil && *nonRoot && *user == 0:
		e.fault("runAsNonRoot with runAsUser 0: the kubelet does not start the gate")
	}
}

// ports reports ports of both the gate and a container.
func (e *examination) ports() {
	if e.settings["SIDE_PORTS"] != "" {
		return // SIDE_PORTS moves most ports, so the default ports below do not apply
	}
	own := []struct {
		setting  string
		standard float64
	}{{"QUEUE_SERVING_PORT", 8012}, {"ADMIN_PORT", 8022}, {"AUTOSCALER_METRICS_PORT", 9090}, {"METRICS_PORT", 9091}, {"STATUS_PORT", 8023}}
	there := false
	for _, c := range e.applications() {
		for _, entry := range c.Ports {
			there = there || entry.ContainerPort == e.userPort()
			for _, port := range own {
				if n := int(e.number(port.setting, port.standard)); n == entry.ContainerPort && n != 0 && entry.Protocol != "UDP" {
					e.fault("container %s and the gate both have port %d: %s moves the gate's, 0 closes it", c.Name, n, port.setting)
				}
			}
		}
	}
	if !there && slices.ContainsFunc(e.applications(), func(c *container) bool { return len(c.Ports) > 0 }) {
		e.warn("no container declares port %d, to which the gate forwards (USER_PORT)", e.userPort())
	}
}

// linked has the names of the port settings, without the suffix _PORT. A Service with
// one of these names is a problem: for a Service called metrics, for example, Kubernetes
// sets the variable METRICS_PORT in every pod (a service link).
var linked = []string{"QUEUE_SERVING", "QUEUE_SERVING_TLS", "USER", "ADMIN", "AUTOSCALER_METRICS", "METRICS", "STATUS", "PROFILING", "APP_PROBE"}

// serviceLinks warns of each Service for which Kubernetes sets an environment variable
// (a service link) that has the name of a gate setting.
func (e *examination) serviceLinks() {
	if links := e.spec.EnableServiceLinks; links != nil && !*links {
		return
	}
	for _, name := range e.objects.names {
		variable := strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
		if slices.Contains(linked, variable) {
			e.warn("Service %s sets %s_PORT in every pod, the name of a setting of the gate; it counts as unset: enableServiceLinks: false", name, variable)
		}
	}
}

// running checks the states of the containers of a running pod.
func (e *examination) running() {
	for _, s := range slices.Concat(e.status.InitContainerStatuses, e.status.ContainerStatuses) {
		if w := s.State.Waiting; w != nil && w.Reason != "PodInitializing" && w.Reason != "ContainerCreating" {
			e.fault("container %s does not run: %s", s.Name, strings.TrimSpace(w.Reason+" "+w.Message))
		} else if s.RestartCount > 0 {
			e.warn("container %s was restarted %d times", s.Name, s.RestartCount)
		}
	}
}

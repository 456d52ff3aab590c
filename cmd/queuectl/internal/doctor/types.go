// Package doctor reports problems with the gate in manifests or objects of a cluster.
package doctor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// These types are the objects of Kubernetes. They have only the fields that doctor uses.
type (
	object struct {
		Kind     string
		Metadata metadata
		Spec     json.RawMessage
		Status   status
		Items    []json.RawMessage
	}
	metadata struct {
		Name, Namespace string
		Labels          map[string]string
	}
	template struct {
		Metadata metadata
		Spec     podSpec
	}
	podSpec struct {
		TerminationGracePeriodSeconds *int
		EnableServiceLinks            *bool
		SecurityContext               securityContext
		InitContainers, Containers    []container
	}
	securityContext struct {
		RunAsNonRoot *bool
		RunAsUser    *int64
	}
	container struct {
		Name, Image, RestartPolicy string
		Command, Args              []string
		Env                        []struct {
			Name, Value string
		}
		Ports []struct {
			Name                    string
			ContainerPort, HostPort int
			Protocol                string
		}
		ReadinessProbe, LivenessProbe, StartupProbe *probe
		Lifecycle                                   struct{ PreStop *probe }
		SecurityContext                             securityContext
	}
	httpGet struct {
		Path, Scheme string
		Port         any
		HTTPHeaders  []struct{ Name, Value string }
	}
	probe struct {
		HTTPGet         *httpGet
		TCPSocket, GRPC *struct{ Port any }
		Exec            *struct{ Command []string }
	}
	service struct {
		name, namespace string
		Selector        map[string]string
		ClusterIP       string
		Ports           []struct {
			Name             string
			Port, TargetPort any
		}
	}
	policy struct {
		name, namespace string
		PodSelector     struct {
			MatchLabels      map[string]string
			MatchExpressions []struct {
				Key, Operator string
				Values        []string
			}
		}
		PolicyTypes []string
		Ingress     []struct {
			Ports []struct {
				Protocol string
				Port     any
				EndPort  int
			}
		}
	}
	status struct {
		InitContainerStatuses, ContainerStatuses []struct {
			Name         string
			RestartCount int
			State        struct {
				Waiting *struct{ Reason, Message string }
			}
		}
	}
)

// pod is a pod, or the pod template of a workload.
type pod struct {
	object   string
	kind     string
	space    string // namespace; "" = any namespace
	job      bool
	labels   map[string]string
	spec     podSpec
	status   status
	gate     *container
	isInit   bool
	settings map[string]string
}

// Objects are the pods, Services and NetworkPolicies of manifests, or of a cluster.
type Objects struct {
	pods     []*pod
	services []service
	policies []policy
	names    []string // names of the Services, sorted
}

// Add parses objects in YAML or JSON and adds them to o.
func (o *Objects) Add(text string) error {
	for decoder := yaml.NewDecoder(strings.NewReader(text)); ; {
		var document any
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil && document != nil {
			var raw []byte
			if raw, err = json.Marshal(document); err == nil {
				err = o.add(raw)
			}
		}
		if err != nil {
			return err
		}
	}
}

func (o *Objects) add(raw []byte) error {
	var top object
	if err := json.Unmarshal(raw, &top); err != nil {
		return err
	}
	for _, item := range top.Items {
		if err := o.add(item); err != nil {
			return err
		}
	}
	var t template
	var err error
	switch top.Kind {
	case "Service":
		s := service{name: top.Metadata.Name, namespace: top.Metadata.Namespace}
		// Keep only Services that select pods. A Knative Service is also of the kind
		// Service, but it has a template instead of a selector.
		if err = json.Unmarshal(top.Spec, &s); err == nil && s.Selector != nil {
			o.services = append(o.services, s)
		}
		o.names = append(o.names, top.Metadata.Name)
		return err
	case "NetworkPolicy":
		p := policy{name: top.Metadata.Name, namespace: top.Metadata.Namespace}
		if err = json.Unmarshal(top.Spec, &p); err == nil {
			o.policies = append(o.policies, p)
		}
		return err
	case "Pod":
		t.Metadata = top.Metadata
		err = json.Unmarshal(top.Spec, &t.Spec)
	case "Deployment", "StatefulSet", "ReplicaSet", "DaemonSet", "Job":
		var spec struct{ Template template }
		err = json.Unmarshal(top.Spec, &spec)
		t = spec.Template
	case "CronJob":
		var spec struct {
			JobTemplate struct{ Spec struct{ Template template } }
		}
		err = json.Unmarshal(top.Spec, &spec)
		t = spec.JobTemplate.Spec.Template
	default:
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s/%s: %w", strings.ToLower(top.Kind), top.Metadata.Name, err)
	}
	p := &pod{object: strings.ToLower(top.Kind) + "/" + top.Metadata.Name, kind: top.Kind, space: top.Metadata.Namespace, job: strings.HasSuffix(top.Kind, "Job"),
		labels: t.Metadata.Labels, spec: t.Spec, status: top.Status}
	p.findGate()
	o.pods = append(o.pods, p)
	return nil
}

// findGate finds the gate's container by its name, image or command.
func (p *pod) findGate() {
	find := func(is func(*container) bool) bool {
		for _, list := range []struct {
			containers []container
			isInit     bool
		}{{p.spec.InitContainers, true}, {p.spec.Containers, false}} {
			for i := range list.containers {
				if c := &list.containers[i]; is(c) {
					p.gate, p.isInit = c, list.isInit
					return true
				}
			}
		}
		return false
	}
	_ = find(func(c *container) bool { return c.Name == "queuegate" || c.Name == "queue-proxy" }) ||
		find(func(c *container) bool {
			image, _, _ := strings.Cut(path.Base(c.Image), "@")
			image, _, _ = strings.Cut(image, ":")
			return image == "queuegate" || len(c.Command) > 0 && path.Base(c.Command[0]) == "queue"
		})
	if p.gate == nil {
		return
	}
	p.settings = map[string]string{}
	for _, v := range p.gate.Env {
		p.settings[v.Name] = v.Value
	}
	for _, a := range p.gate.Args {
		for setting, flag := range flags {
			if value, ok := strings.CutPrefix(a, "--"+flag+"="); ok {
				p.settings[setting] = value
			}
		}
	}
}

// flags has the flag of each setting that is checked.
var flags = map[string]string{
	"QUEUE_SERVING_PORT": "port", "QUEUE_SERVING_TLS_PORT": "tls-port", "USER_PORT": "user-port", "ADMIN_PORT": "admin-port",
	"AUTOSCALER_METRICS_PORT": "autoscaler-metrics-port", "METRICS_PORT": "metrics-port", "STATUS_PORT": "status-port",
	"UPSTREAM_TLS": "upstream-tls", "REVISION_TIMEOUT_SECONDS": "timeout", "DRAIN_QUIET_SECONDS": "drain-quiet", "SIDE_PORTS": "side-ports",
}

// number returns the value of a numeric setting. If the setting is not set or is not a
// number, the result is the default, which is passed as the parameter standard.
func (p *pod) number(name string, standard float64) float64 {
	if n, err := strconv.ParseFloat(p.settings[name], 64); err == nil {
		return n
	}
	return standard
}

func (p *pod) servingPort() int { return int(p.number("QUEUE_SERVING_PORT", 8012)) }
func (p *pod) adminPort() int   { return int(p.number("ADMIN_PORT", 8022)) }
func (p *pod) userPort() int    { return int(p.number("USER_PORT", 8080)) }

// applications returns all containers except the gate.
func (p *pod) applications() (all []*container) {
	for i := range p.spec.Containers {
		if c := &p.spec.Containers[i]; c != p.gate {
			all = append(all, c)
		}
	}
	return all
}

// port returns the number of a port to which a probe, Service or NetworkPolicy refers by
// number or by name. A name is looked up in the ports of the container c. If c is nil, it
// is looked up in all containers. The result is 0 if no port has the name.
func (p *pod) port(c *container, port any) int {
	switch v := port.(type) {
	case float64:
		return int(v)
	case string:
		if n, err := strconv.Atoi(v); err == nil {
			return n
		}
		for _, other := range slices.Concat(p.spec.InitContainers, p.spec.Containers) {
			for _, entry := range other.Ports {
				if entry.Name == v && (c == nil || other.Name == c.Name) {
					return entry.ContainerPort
				}
			}
		}
	}
	return 0
}

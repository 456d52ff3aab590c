package render

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"
)

func readYAML(t *testing.T, file string) (content map[string]any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(text, &content); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return content
}

func TestInvalidValuesAreRejected(t *testing.T) {
	for values, want := range map[string]string{
		`{replicas: -1}`: "replicas",
		`{replica: 3}`:   "replica",
		`{gate: {image: registry.example/queuegate}}`:    "gate.image",
		`{app: {image: "registry.example/app:latest"}}`:  "app.image",
		`{app: {image: "host:5000/app"}}`:                "app.image",
		`{app: {port: 70000}}`:                           "app.port",
		`{app: {readinessProbe: {exec: {}}}}`:            "app.readinessProbe",
		`{gate: {concurrency: "10"}}`:                    "gate.concurrency",
		`{gate: {timeoutSeconds: 0}}`:                    "gate.timeoutSeconds",
		`{gate: {env: {A: b}}}`:                          "gate.env",
		`{gate: {env: [{name: A, value: 1}]}}`:           "gate.env",
		`{gate: {resources: {limits: {cpu: lots}}}}`:     "gate.resources.limits.cpu",
		`{autoscaling: {kind: vpa}}`:                     "autoscaling.kind",
		`{networkPolicy: {prometheus: {podLabels: []}}}`: "networkPolicy.prometheus.podLabels",
		`{podDisruptionBudget: {maxUnavailable: 0}}`:     "podDisruptionBudget.maxUnavailable",
		`{tolerations: {key: a}}`:                        "tolerations",
		`{podAnnotations: {a: 1}}`:                       "podAnnotations",
		`{affinities: {}}`:                               "affinities",
		`{volumes: [{emptyDir: {}}]}`:                    "volumes",
		`{app: {volumeMounts: [{name: a}]}}`:             "app.volumeMounts",
		`{service: {type: Headless}}`:                    "service.type",
		`{gateOnly: {enabled: true}}`:                    "gateOnly.selectorLabels",
	} {
		path := "/" + strings.ReplaceAll(want, ".", "/")
		if _, err := helm(values); err == nil || !strings.Contains(err.Error(), want) && !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, want an error with %s", values, err, want)
		}
	}
}

// The test changes one value at a time. Each change must change the manifests.
func TestEveryValueOfTheChartChangesItsManifests(t *testing.T) {
	for values, want := range map[string]string{
		`{replicas: 5}`:                      "replicas: 5",
		`{app: {image: "host:5000/app:v1"}}`: "image: host:5000/app:v1",
		`{app: {image: "host/app@sha256:` + strings.Repeat("0", 64) + `"}}`: "image: host/app@sha256:0",
		`{app: {port: 3000}}`:                                 "containerPort: 3000",
		`{app: {env: [{name: COLOUR, value: red}]}}`:          "value: red",
		`{app: {readinessProbe: {httpGet: {path: /up}}}}`:     `"path":"/up"`,
		`{app: {resources: {limits: {memory: 1Gi}}}}`:         "memory: 1Gi",
		`{app: {securityContext: {runAsUser: 1234}}}`:         "runAsUser: 1234",
		`{gate: {image: "host/gate:v2"}}`:                     "image: host/gate:v2",
		`{gate: {concurrency: 3}}`:                            `value: "3"`,
		`{gate: {timeoutSeconds: 60}}`:                        "terminationGracePeriodSeconds: 90",
		`{gate: {drainQuietSeconds: 0}}`:                      "terminationGracePeriodSeconds: 320",
		`{gate: {env: [{name: QUEUE_CAPACITY, value: "7"}]}}`: "name: QUEUE_CAPACITY",
		`{gate: {resources: {limits: {cpu: 250m}}}}`:          "cpu: 250m",
		`{imagePullSecrets: [{name: regcred}]}`:               "name: regcred",
		`{service: {port: 8000}}`:                             "port: 8000",
		`{service: {type: LoadBalancer}}`:                     "type: LoadBalancer",
		`{service: {annotations: {of: service}}}`:             "of: service",
		`{nameOverride: shop}`:                                "value: shop",
		`{app: {command: [run-it]}}`:                          "- run-it",
		`{app: {args: [--fast]}}`:                             "- --fast",
		`{app: {envFrom: [{secretRef: {name: keys}}]}}`:       "name: keys",
		`{app: {volumeMounts: [{name: tmp, mountPath: /tmp}]}, volumes: [{name: tmp, emptyDir: {}}]}`:          "mountPath: /tmp",
		`{gate: {volumeMounts: [{name: ca, mountPath: /ca}]}, volumes: [{name: ca, secret: {secretName: x}}]}`: "mountPath: /ca",
		`{gate: {securityContext: {runAsUser: 4321}}}`:                                                         "runAsUser: 4321",
		`{labels: {team: shop}}`:                                        "team: shop",
		`{annotations: {of: deployment}}`:                               "of: deployment",
		`{podLabels: {of: pods}}`:                                       "of: pods",
		`{podAnnotations: {reload: "1"}}`:                               `reload: "1"`,
		`{podSecurityContext: {fsGroup: 2000}}`:                         "fsGroup: 2000",
		`{serviceAccount: {create: true, annotations: {role: reader}}}`: "role: reader",
		`{serviceAccount: {name: robot}}`:                               "serviceAccountName: robot",
		`{automountServiceAccountToken: true}`:                          "automountServiceAccountToken: true",
		`{nodeSelector: {disk: ssd}}`:                                   "disk: ssd",
		`{affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: Exists}]}]}}}}`: "key: zone",
		`{tolerations: [{key: spot, operator: Exists}]}`:                                                    "key: spot",
		`{topologySpreadConstraints: [{maxSkew: 1, topologyKey: rack, whenUnsatisfiable: ScheduleAnyway}]}`: "topologyKey: rack",
		`{priorityClassName: high}`:                                                      "priorityClassName: high",
		`{initContainers: [{name: migrate, image: host/migrate}]}`:                       "name: migrate",
		`{extraContainers: [{name: proxy, image: host/proxy}]}`:                          "name: proxy",
		`{podDisruptionBudget: {maxUnavailable: 25%}}`:                                   "maxUnavailable: 25%",
		`{networkPolicy: {prometheus: {namespace: watch}}}`:                              "kubernetes.io/metadata.name: watch",
		`{networkPolicy: {prometheus: {podLabels: {a: bcd}}}}`:                           "a: bcd",
		`{autoscaling: {kind: hpa, minReplicas: 4, maxReplicas: 44, targetRequests: 9}}`: `maxReplicas: 44`,
		`{autoscaling: {kind: keda, prometheusAddress: "http://p:1"}}`:                   "serverAddress: http://p:1",
	} {
		rendered, err := helm(values)
		if err != nil {
			t.Errorf("%s: %v", values, err)
			continue
		}
		objects(t, rendered)
		if !strings.Contains(string(rendered), want) {
			t.Errorf("%s: no %q in\n%s", values, want, rendered)
		}
	}
	for kind, values := range map[string]string{
		"PodDisruptionBudget": `{podDisruptionBudget: {enabled: false}}`,
		"NetworkPolicy":       `{networkPolicy: {enabled: false}}`,
	} {
		if names := kinds(chart(t, values)); slices.Contains(names, kind) || len(names) != 3 {
			t.Errorf("%s: %q", values, names)
		}
	}
}

func TestManifestsWithAnAutoscalerSetNoReplicas(t *testing.T) {
	for _, values := range []string{`{autoscaling: {kind: hpa}}`, `{autoscaling: {kind: keda}}`} {
		if d := find(t, chart(t, values), "Deployment").typed.(*v1.Deployment); d.Spec.Replicas != nil {
			t.Errorf("%s: %d replicas", values, *d.Spec.Replicas)
		}
	}
}

// The schema must list every value of values.yaml. If the schema lists no properties
// for an object, the test does not check the values in this object.
func TestTheSchemaOfTheChartHasEveryValue(t *testing.T) {
	dir := configDir + "helm/queuegate/"
	raw, err := os.ReadFile(dir + "values.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var schema map[string]any
	if err := json.Unmarshal(raw, &schema); err != nil {
		t.Fatal(err)
	}
	found := 0
	var check func(path string, values, schema map[string]any)
	check = func(path string, values, schema map[string]any) {
		properties, _ := schema["properties"].(map[string]any)
		if properties == nil {
			return
		}
		for key, value := range values {
			found++
			below, ok := properties[key].(map[string]any)
			if !ok {
				t.Errorf("%s.%s is not in the schema", path, key)
				continue
			}
			if inner, ok := value.(map[string]any); ok {
				check(path+"."+key, inner, below)
			}
		}
	}
	check("", readYAML(t, dir+"values.yaml"), schema)
	if found < 30 {
		t.Errorf("only %d values", found)
	}
}

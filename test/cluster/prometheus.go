package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/util/yaml"
)

// PrometheusAddress is the address of Prometheus.
const PrometheusAddress = "127.0.0.1:9090"

// Variables and names of Prometheus' adapter.
const (
	adapterModule   = "sigs.k8s.io/prometheus-adapter@v0.12.0"
	adapterVariable = "QUEUEGATE_CLUSTER_ADAPTER"
	configVariable  = "QUEUEGATE_CLUSTER_CONFIG" // directory config of the repository
)

func buildAdapter(root, cache string) (variables []string, err error) {
	_, version, _ := strings.Cut(adapterModule, "@")
	binary := filepath.Join(cache, "adapter-"+version, "adapter")
	variables = []string{adapterVariable + "=" + binary, configVariable + "=" + filepath.Join(root, "..", "..", "config")}
	if _, err := os.Stat(binary); err == nil {
		return variables, nil
	}
	directory, err := moduleDirectory(adapterModule)
	if err != nil {
		return nil, err
	}
	fmt.Println("cluster: building", adapterModule)
	return variables, goBuild(directory, binary, "-s -w", "./cmd/adapter")
}

// anonymous lets everyone read custom metrics, because the adapter cannot authenticate
// this API server.
const anonymous = `apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: custom-metrics}
rules:
  - {apiGroups: [custom.metrics.k8s.io], resources: ["*"], verbs: ["*"]}
  - {nonResourceURLs: [/apis, /apis/*], verbs: [get]} # by which the API server sees that it is there
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: custom-metrics}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: custom-metrics}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: system:unauthenticated}]
`

// TargetsFile returns the JSON file of Prometheus' targets.
func TargetsFile() string { return filepath.Join(os.Getenv(stateVariable), "targets.json") }

// prometheus starts Prometheus with config/prometheus/scrape.yaml, and its adapter with
// config/overlays/hpa/adapter.yaml.
func (s *starter) prometheus() error {
	config := os.Getenv(configVariable)
	scrape, err := os.ReadFile(filepath.Join(config, "prometheus", "scrape.yaml"))
	if err != nil {
		return err
	}
	values, err := os.ReadFile(filepath.Join(config, "overlays", "hpa", "adapter.yaml"))
	if err != nil {
		return err
	}
	// adapter.yaml has values for the adapter's Helm chart. The test does not use Helm,
	// so it makes the adapter's configuration from these values itself.
	var chart struct {
		Rules struct{ Custom []any }
	}
	if err := yaml.Unmarshal(values, &chart); err != nil {
		return err
	}
	rules, err := json.Marshal(map[string]any{"rules": chart.Rules.Custom})
	if err != nil {
		return err
	}
	// Debian's Prometheus cannot discover the pods of Kubernetes. So Prometheus reads
	// its targets from a file instead, into which the test writes the pods.
	discovery := "    kubernetes_sd_configs:\n      - role: pod\n"
	if !strings.Contains(string(scrape), discovery) {
		return errors.New("scrape.yaml does not discover pods")
	}
	page := strings.Replace(string(scrape), discovery, "    file_sd_configs:\n      - files: ["+TargetsFile()+"]\n        refresh_interval: 1s\n", 1)
	scrapeFile, rulesFile, bindings := filepath.Join(s.state, "scrape.yaml"), filepath.Join(s.state, "rules.yaml"), filepath.Join(s.state, "bindings.yaml")
	if err := errors.Join(s.write(scrapeFile, "%s", page), s.write(rulesFile, "%s", rules), s.write(bindings, "%s", anonymous)); err != nil {
		return err
	}
	if err := command("kubectl", "apply", "-f", bindings); err != nil {
		return err
	}
	program, err := exec.LookPath("prometheus")
	if err != nil {
		return err
	}
	if err := s.launch("prometheus", program, "--config.file="+scrapeFile, "--storage.tsdb.path="+s.state+"/prometheus",
		"--web.listen-address="+PrometheusAddress); err != nil {
		return err
	}
	if err := s.launch("adapter", os.Getenv(adapterVariable), "--lister-kubeconfig="+s.kubeconfig, "--authentication-kubeconfig="+s.kubeconfig,
		"--authorization-kubeconfig="+s.kubeconfig, "--authentication-tolerate-lookup-failure", "--config="+rulesFile,
		"--prometheus-url=http://"+PrometheusAddress, "--metrics-relist-interval=15s", "--secure-port="+adapterPort,
		"--cert-dir="+s.state+"/adapter"); err != nil {
		return err
	}
	return s.announceAdapter()
}

package cluster

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// definitionsVariable has the path of the directory with custom resource definitions.
const definitionsVariable = "QUEUEGATE_CLUSTER_DEFINITIONS"

// definitions maps a Go module to its files with custom resource definitions. test/render
// uses the same versions of the modules.
var definitions = map[string][]string{
	"github.com/kedacore/keda/v2@v2.20.2": {"config/crd/bases/keda.sh_scaledobjects.yaml"},
	"github.com/prometheus-operator/prometheus-operator@v0.92.1": {
		"example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml",
		"example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml",
	},
}

// moduleDirectory downloads a module and returns its directory.
func moduleDirectory(module string) (string, error) {
	download := exec.Command("go", "mod", "download", "-json", module)
	download.Dir = os.TempDir()
	out, err := download.Output()
	if err != nil {
		return "", fmt.Errorf("go mod download %s: %w: %s", module, err, out)
	}
	var moduleInfo struct{ Dir string }
	if err := json.Unmarshal(out, &moduleInfo); err != nil {
		return "", err
	}
	return moduleInfo.Dir, nil
}

// copyDefinitions copies the definitions into a directory below the given one. It returns
// an assignment "NAME=path", which tells the inside stage the path of the directory.
func copyDefinitions(dir string) (variable string, err error) {
	dir = filepath.Join(dir, "definitions")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	for module, files := range definitions {
		directory, err := moduleDirectory(module)
		if err != nil {
			return "", err
		}
		for _, file := range files {
			content, err := os.ReadFile(filepath.Join(directory, file))
			if err != nil {
				return "", err
			}
			if err := os.WriteFile(filepath.Join(dir, filepath.Base(file)), content, 0o644); err != nil {
				return "", err
			}
		}
	}
	return definitionsVariable + "=" + dir, nil
}

// InstallDefinitions installs the custom resource definitions of KEDA and of the
// Prometheus operator, without the programs.
func InstallDefinitions(t *testing.T) {
	t.Helper()
	directory := os.Getenv(definitionsVariable)
	// Without --server-side, kubectl would store the whole object in an annotation. Some
	// definitions exceed the size limit of annotations.
	Kubectl(t, "apply", "--server-side", "-f", directory)
	Kubectl(t, "wait", "--for=condition=Established", fmt.Sprintf("--timeout=%v", WaitTimeout), "-f", directory)
}

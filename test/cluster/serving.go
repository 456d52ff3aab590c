package cluster

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// These environment variables tell the inside stage the directories of Knative's modules.
const (
	servingVariable    = "QUEUEGATE_CLUSTER_SERVING"
	networkingVariable = "QUEUEGATE_CLUSTER_NETWORKING"
	cachingVariable    = "QUEUEGATE_CLUSTER_CACHING"
	suitesVariable     = "QUEUEGATE_CLUSTER_SUITES" // directory of the test binaries
)

// KnativeRegistry is a registry for which Knative does not resolve digests.
const KnativeRegistry = "ko.local"

// KnativeTag is the tag of the images in KnativeRegistry.
const KnativeTag = "test"

// servingPrograms are the programs of Knative Serving, with queue-proxy for comparison.
var servingPrograms = []string{"cmd/activator", "cmd/autoscaler", "cmd/controller", "cmd/queue", "cmd/webhook"}

// servingImages are the images of Knative's test suites.
var servingImages = []string{
	"autoscale", "configmimic", "failing", "grpc-ping", "hellohttp2", "hellovolume", "helloworld", "httpproxy", "pizzaplanetv1", "pizzaplanetv2",
	"readiness", "runtime", "servingcontainer", "sidecarcontainer", "singlethreaded", "slowstart", "timeout", "volumes", "wsserver",
}

// servingSuites are the packages with Knative's test suites, as paths relative to the
// directory knative.dev/serving/test.
var servingSuites = []string{
	"conformance/api/v1", "conformance/api/v1beta1", "conformance/runtime",
	"e2e", "e2e/gc", "e2e/initcontainers", "e2e/initscale", "e2e/multicontainerprobing", "e2e/securedefaults", "e2e/tagheader",
}

// buildServing builds Knative Serving from its Go module, and caches the result until the
// module changes. It returns the images, and the variables for the inside stage.
func buildServing(root, cache, dir string, suites bool) (images, variables []string, err error) {
	module := filepath.Join(root, "serving")
	key, err := digest(filepath.Join(module, "go.mod"), filepath.Join(module, "go.sum"))
	if err != nil {
		return nil, nil, err
	}
	built := filepath.Join(cache, "serving-"+key)
	packages := map[string]string{}
	for _, p := range servingPrograms {
		packages[filepath.Base(p)] = p
	}
	if suites {
		for _, i := range servingImages {
			packages[i] = "test/test_images/" + map[string]string{"servingcontainer": "multicontainer/", "sidecarcontainer": "multicontainer/"}[i] + i
		}
		for _, path := range servingSuites {
			if err := buildSuite(module, filepath.Join(built, suiteBinary(path)), "test/"+path); err != nil {
				return nil, nil, err
			}
		}
	}
	for name, path := range packages {
		program := filepath.Join(built, name)
		if _, err := os.Stat(program); err != nil {
			fmt.Println("cluster: building", path, "of Knative Serving")
			if err := goBuild(module, program, "-s -w", "knative.dev/serving/"+path); err != nil {
				return nil, nil, err
			}
		}
		archive := filepath.Join(dir, "knative-"+name+".tar")
		i := image{name: KnativeRegistry + "/" + name + ":" + KnativeTag, program: program, path: "/ko-app/" + name}
		if err := i.write(archive); err != nil {
			return nil, nil, err
		}
		images = append(images, archive)
	}
	variables = append(variables, suitesVariable+"="+built)
	for variable, path := range map[string]string{
		servingVariable: "knative.dev/serving", networkingVariable: "knative.dev/networking", cachingVariable: "knative.dev/caching",
	} {
		list := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", path)
		list.Dir = module
		out, err := list.Output()
		if err != nil {
			return nil, nil, fmt.Errorf("finding module %s: %w", path, err)
		}
		variables = append(variables, variable+"="+strings.TrimSpace(string(out)))
	}
	return images, variables, nil
}

// buildSuite compiles a test suite.
func buildSuite(module, binary, path string) error {
	if _, err := os.Stat(binary); err == nil {
		return nil
	}
	fmt.Println("cluster: building", path, "of Knative Serving")
	compile := exec.Command("go", "test", "-c", "-tags=e2e", "-trimpath", "-o", binary, "knative.dev/serving/"+path)
	compile.Dir, compile.Stdout, compile.Stderr = module, os.Stderr, os.Stderr
	// The programs are also built with CGO_ENABLED=0, so most packages are already in
	// Go's build cache.
	compile.Env = append(os.Environ(), "CGO_ENABLED=0")
	if err := compile.Run(); err != nil {
		return fmt.Errorf("building %s: %w", path, err)
	}
	return nil
}

// ServingDirectory returns the directory of knative.dev/serving.
func ServingDirectory() string { return os.Getenv(servingVariable) }

// Suite returns the file name of a suite's test binary. The suite's path is an element of
// servingSuites.
func Suite(path string) string { return filepath.Join(os.Getenv(suitesVariable), suiteBinary(path)) }

func suiteBinary(path string) string { return strings.ReplaceAll(path, "/", "-") + ".test" }

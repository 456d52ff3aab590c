package cluster

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// kubernetesVersion is the version in go.mod. The build links it into the node's
// programs, which would otherwise report v0.0.0-master.
const kubernetesVersion = "v1.36.3"

// The host stage tells the inside stage the paths of built files, in these environment
// variables.
const (
	nodeVariable   = "QUEUEGATE_CLUSTER_NODE"
	imagesVariable = "QUEUEGATE_CLUSTER_IMAGES" // paths, separated by colons
)

// build builds the node, the images and the other files that the options require. It
// writes the images to the given directory. The result is a list of assignments
// "NAME=path", with which the inside stage finds all files.
func build(dir string, options Options) (variables []string, err error) {
	cache, err := cacheDirectory()
	if err != nil {
		return nil, err
	}
	root, err := moduleRoot()
	if err != nil {
		return nil, err
	}
	node, err := buildNode(root, cache)
	if err != nil {
		return nil, err
	}
	images, err := buildImages(root, dir)
	if err != nil {
		return nil, err
	}
	if options.Knative {
		serving, directories, err := buildServing(root, cache, dir, options.Suites)
		if err != nil {
			return nil, err
		}
		images, variables = append(images, serving...), directories
	}
	if options.Prometheus {
		adapter, err := buildAdapter(root, cache)
		if err != nil {
			return nil, err
		}
		variables = append(variables, adapter...)
	}
	if options.Definitions {
		variable, err := copyDefinitions(dir)
		if err != nil {
			return nil, err
		}
		variables = append(variables, variable)
	}
	return append(variables, nodeVariable+"="+node, imagesVariable+"="+strings.Join(images, ":")), nil
}

// cacheDirectory returns the directory for slow builds, which all clones of the
// repository share.
func cacheDirectory() (string, error) {
	user, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	cache := filepath.Join(user, "queuegate-cluster")
	return cache, os.MkdirAll(cache, 0o755)
}

// moduleRoot returns the directory of this module, above the directory of the test.
func moduleRoot() (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	return filepath.Dir(strings.TrimSpace(string(out))), err
}

// nodeBinary returns the path of the node's binary, which may not exist. The directory is
// named after a digest of the sources.
func nodeBinary(root, cache string) (string, error) {
	sources, err := filepath.Glob(filepath.Join(root, "node", "*.go"))
	if err != nil {
		return "", err
	}
	key, err := digest(append(sources, filepath.Join(root, "go.mod"), filepath.Join(root, "go.sum"))...)
	return filepath.Join(cache, "node-"+key, "node"), err
}

func nodeIsBuilt() (bool, error) {
	cache, cacheErr := cacheDirectory()
	root, rootErr := moduleRoot()
	if err := errors.Join(cacheErr, rootErr); err != nil {
		return false, err
	}
	binary, err := nodeBinary(root, cache)
	if err != nil {
		return false, err
	}
	_, err = os.Stat(binary)
	return err == nil, nil
}

// buildNode builds the node's binary if it does not exist, and returns its path.
func buildNode(root, cache string) (string, error) {
	binary, err := nodeBinary(root, cache)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(binary); err == nil {
		return binary, nil
	}
	fmt.Println("cluster: building the node, which takes minutes the first time:", binary)
	numbers := strings.Split(strings.TrimPrefix(kubernetesVersion, "v"), ".")
	var flags []string
	for _, p := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		flags = append(flags, "-X "+p+".gitVersion="+kubernetesVersion, "-X "+p+".gitMajor="+numbers[0], "-X "+p+".gitMinor="+numbers[1],
			"-X "+p+".gitTreeState=clean", "-X "+p+".gitCommit="+strings.Repeat("0", 40))
	}
	if err := goBuild(root, binary, "-s -w "+strings.Join(flags, " "), "./node"); err != nil {
		return "", err
	}
	// Keep only the latest build: a build takes 150 MB.
	old, _ := filepath.Glob(filepath.Join(cache, "node-*"))
	for _, o := range old {
		if o != filepath.Dir(binary) {
			os.RemoveAll(o)
		}
	}
	return binary, nil
}

// goBuild builds a static program. It writes a temporary file first, so that binary is
// always complete.
func goBuild(directory, binary, ldflags string, packages ...string) error {
	if err := os.MkdirAll(filepath.Dir(binary), 0o755); err != nil {
		return err
	}
	part := fmt.Sprintf("%s.%d", binary, os.Getpid())
	defer os.Remove(part)
	arguments := append([]string{"build", "-trimpath", "-buildvcs=false", "-ldflags", ldflags, "-o", part}, packages...)
	command := exec.Command("go", arguments...)
	command.Dir, command.Env = directory, append(os.Environ(), "CGO_ENABLED=0")
	command.Stdout, command.Stderr = os.Stderr, os.Stderr
	if err := command.Run(); err != nil {
		return fmt.Errorf("building %s: %w", strings.Join(packages, " "), err)
	}
	return os.Rename(part, binary)
}

// digest hashes files and the version of the toolchain.
func digest(files ...string) (string, error) {
	slices.Sort(files)
	sum := sha256.New()
	io.WriteString(sum, runtime.Version())
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return "", err
		}
		_, err = io.Copy(sum, f)
		f.Close()
		if err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(sum.Sum(nil)[:10]), nil
}

// buildImages builds the images of the pods: gate and demo with make image, the others
// from programs.
func buildImages(root, dir string) ([]string, error) {
	repository := filepath.Join(root, "..", "..")
	make := exec.Command("make", "--no-print-directory", "image")
	make.Dir, make.Stderr = repository, os.Stderr
	if out, err := make.Output(); err != nil {
		return nil, fmt.Errorf("make image: %w\n%s", err, out)
	}
	made := filepath.Join(repository, "bin", "image")
	archives := []string{filepath.Join(made, "queue.tar"), filepath.Join(made, "demo.tar")}
	for _, i := range []struct{ name, source string }{{pauseImage, "pause"}, {"registry.example/hungry:dev", "hungry"}} {
		program := filepath.Join(dir, i.source)
		if err := goBuild(root, program, "-s -w", "./"+i.source); err != nil {
			return nil, err
		}
		if err := (image{i.name, program, "/bin/" + i.source}).write(program + ".tar"); err != nil {
			return nil, err
		}
		archives = append(archives, program+".tar")
	}
	return archives, nil
}

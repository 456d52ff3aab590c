package cluster

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Addresses of the node, in a range for tests (RFC 2544).
const (
	nodeName     = "node"
	NodeAddress  = "198.18.0.1"
	LocalAddress = "198.18.0.2" // ingress for requests from the cluster
	podRange     = "198.18.1.0/24"
	serviceRange = "198.18.128.0/20"
	apiService   = "198.18.128.1" // first address of serviceRange
)

// startTimeout limits each step of the start.
const startTimeout = 10 * time.Minute

// A starter has the paths that the node's programs share.
type starter struct {
	state, logs, cgroup string
	node                string
	kubeconfig          string
}

// start starts the node's programs, and returns when the node is ready for pods.
func start(options Options) error {
	s := &starter{
		state: os.Getenv(stateVariable), logs: os.Getenv(logsVariable), cgroup: os.Getenv(cgroupVariable), node: os.Getenv(nodeVariable),
	}
	s.kubeconfig = filepath.Join(s.state, "kubeconfig")
	began := time.Now()
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"cgroups", func() error { return makeCgroups(s.cgroup) }},
		{"network", s.network},
		{"certificates", s.certificates},
		{"kubectl", s.kubectl},
		{"container runtime", s.runtime},
		{"control plane", s.controlPlane},
		{"images", s.images},
		{"kubelet", s.kubelet},
		{"services", s.services},
		{"a ready node", s.ready},
		{"metrics adapter", func() error { return s.adapter(options) }},
		{"name server and ingress", func() error { return s.ingress(options) }},
	} {
		if err := step.do(); err != nil {
			return fmt.Errorf("starting the node: %s: %w", step.name, err)
		}
	}
	fmt.Printf("cluster: node ready after %.1f s\n", time.Since(began).Seconds())
	return nil
}

// network creates a bridge with the node's address. It also creates a default route,
// because the kubelet and the API server do not start without one. This route leads
// nowhere.
func (s *starter) network() error {
	for _, line := range []string{
		"link set lo up",
		"link add node0 type bridge",
		"address add " + NodeAddress + "/24 dev node0",
		"address add " + LocalAddress + "/24 dev node0",
		"link set node0 up",
		"route add default dev node0",
	} {
		if err := command("ip", strings.Fields(line)...); err != nil {
			return err
		}
	}
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644); err != nil {
		return err
	}
	// containerd reads this file only at its start.
	return s.mountFile("/etc/resolv.conf", "nameserver "+NodeAddress+"\n")
}

// kubectl installs the command kubectl.
func (s *starter) kubectl() error {
	bin := filepath.Join(s.state, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		return err
	}
	os.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	os.Setenv("KUBECONFIG", s.kubeconfig)
	return os.Symlink(s.node, filepath.Join(bin, "kubectl"))
}

func (s *starter) runtime() error {
	directory := pluginDirectory()
	plugins := filepath.Join(s.state, "cni")
	if err := s.write(filepath.Join(plugins, "pods.conflist"), cniConfiguration, s.state, podRange); err != nil {
		return err
	}
	configuration := filepath.Join(s.state, "containerd.toml")
	if err := s.write(configuration, containerdConfiguration, s.state, pauseImage, directory, plugins); err != nil {
		return err
	}
	return s.launch("containerd", "containerd", "--config", configuration)
}

func (s *starter) images() error {
	if err := s.repeat("containerd", func() error { return s.ctr("version") }); err != nil {
		return err
	}
	for _, archive := range strings.Split(os.Getenv(imagesVariable), ":") {
		if err := s.ctr("images", "import", archive); err != nil {
			return err
		}
	}
	// For any other registry Knative would resolve digests.
	return errors.Join(
		s.ctr("images", "tag", "registry.example/queuegate:dev", KnativeRegistry+"/queuegate:"+KnativeTag),
		s.ctr("images", "tag", "registry.example/queuegate-demo:dev", KnativeRegistry+"/demo:"+KnativeTag),
	)
}

func (s *starter) ctr(arguments ...string) error {
	return command("ctr", append([]string{"--address", s.state + "/containerd.sock", "--namespace", "k8s.io"}, arguments...)...)
}

func (s *starter) controlPlane() error {
	if err := s.launch("etcd", s.node, "etcd", "--data-dir", s.state+"/etcd", "--unsafe-no-fsync", "--log-level=warn",
		"--listen-client-urls=http://127.0.0.1:2379", "--advertise-client-urls=http://127.0.0.1:2379",
		"--listen-peer-urls=http://127.0.0.1:2380", "--initial-advertise-peer-urls=http://127.0.0.1:2380",
		"--initial-cluster=default=http://127.0.0.1:2380"); err != nil {
		return err
	}
	keys := filepath.Join(s.state, "keys")
	if err := s.launch("kube-apiserver", s.node, "kube-apiserver", "--etcd-servers=http://127.0.0.1:2379",
		"--advertise-address="+NodeAddress, "--secure-port=6443", "--service-cluster-ip-range="+serviceRange,
		"--tls-cert-file="+keys+"/api.crt", "--tls-private-key-file="+keys+"/api.key",
		"--token-auth-file="+keys+"/tokens.csv", "--authorization-mode=Node,RBAC", "--allow-privileged",
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file="+keys+"/accounts.pub",
		"--service-account-signing-key-file="+keys+"/accounts.key", "--kubelet-preferred-address-types=InternalIP",
		"--feature-gates="+gates(podCertificates, "="), "--runtime-config=certificates.k8s.io/v1beta1=true",
		"--profiling=false"); err != nil {
		return err
	}
	if err := s.repeat("the API server", s.api("/readyz")); err != nil {
		return err
	}
	if err := s.launch("kube-controller-manager", s.node, "kube-controller-manager", "--kubeconfig="+s.kubeconfig,
		"--service-account-private-key-file="+keys+"/accounts.key", "--root-ca-file="+keys+"/api.crt", "--leader-elect=false",
		"--horizontal-pod-autoscaler-sync-period=2s"); err != nil {
		return err
	}
	return s.launch("kube-scheduler", s.node, "kube-scheduler", "--kubeconfig="+s.kubeconfig, "--leader-elect=false")
}

// podCertificates are the feature gates of pod certificates and trust bundles.
var podCertificates = []string{"PodCertificateRequest", "ClusterTrustBundle", "ClusterTrustBundleProjection"}

// gates returns a list that sets each feature gate to true. Commas separate the entries.
// The second parameter separates the name of a feature gate from its value: it is "=" for
// a flag and ": " for YAML.
func gates(names []string, is string) string {
	return strings.Join(names, is+"true,") + is + "true"
}

func (s *starter) kubelet() error {
	configuration := filepath.Join(s.state, "kubelet.yaml")
	if err := s.write(configuration, kubeletConfiguration, s.cgroup, s.state, NodeAddress, strings.ReplaceAll(gates(podCertificates, ": "), ",", ", ")); err != nil {
		return err
	}
	return s.launch("kubelet", s.node, "kubelet", "--config="+configuration, "--kubeconfig="+s.kubeconfig, "--root-dir="+s.state+"/kubelet",
		"--hostname-override="+nodeName, "--node-ip="+NodeAddress, "--v=2")
}

func (s *starter) services() error {
	configuration := filepath.Join(s.state, "proxy.yaml")
	if err := s.write(configuration, proxyConfiguration, s.kubeconfig, nodeName, podRange); err != nil {
		return err
	}
	return s.launch("kube-proxy", s.node, "kube-proxy", "--config="+configuration)
}

func (s *starter) ready() error {
	return s.repeat("the node", func() error {
		out, err := exec.Command("kubectl", "get", "node", nodeName, "-o", `jsonpath={.status.conditions[?(@.type=="Ready")].status}`).CombinedOutput()
		if err != nil || string(out) != "True" {
			return fmt.Errorf("not ready: %s", bytes.TrimSpace(out))
		}
		// Wait until a controller has created the default service account. Without it, no
		// pod can be created.
		return command("kubectl", "get", "serviceaccount", "default")
	})
}

// adapter starts an adapter, which serves custom metrics through the API server.
func (s *starter) adapter(options Options) error {
	if options.Prometheus {
		return s.prometheus()
	}
	if err := s.launch("adapter", s.node, "adapter", "--kubeconfig="+s.kubeconfig, "--listen="+NodeAddress+":"+adapterPort); err != nil {
		return err
	}
	return s.announceAdapter()
}

// announceAdapter registers the adapter at the API server.
func (s *starter) announceAdapter() error {
	manifest := filepath.Join(s.state, "adapter.yaml")
	if err := s.write(manifest, adapterManifest, NodeAddress, adapterPort); err != nil {
		return err
	}
	return command("kubectl", "apply", "-f", manifest)
}

// ingress starts the name server and the ingress. Before that, it installs the
// definitions of Knative's resources, because the ingress needs them.
func (s *starter) ingress(options Options) error {
	if !options.Knative {
		return nil
	}
	if err := command("kubectl", "apply", "--server-side", "-f", filepath.Join(os.Getenv(networkingVariable), "config", "ingress.yaml")); err != nil {
		return err
	}
	return errors.Join(
		s.launch("dns", s.node, "dns", "--kubeconfig="+s.kubeconfig, "--listen="+NodeAddress+":53", "--gateway="+LocalAddress),
		s.launch("ingress", s.node, "ingress", "--kubeconfig="+s.kubeconfig, "--public="+NodeAddress+":80", "--local="+LocalAddress+":80"),
	)
}

// launch starts a program with its output in a log file. If the program exits, launch
// ends the tests, which could only time out.
func (s *starter) launch(name, program string, arguments ...string) error {
	log := filepath.Join(s.logs, name+".log")
	out, err := os.Create(log)
	if err != nil {
		return err
	}
	part := exec.Command(program, arguments...)
	part.Stdout, part.Stderr = out, out
	part.Env = environment()
	if err := part.Start(); err != nil {
		return err
	}
	go func() {
		err := part.Wait()
		content, _ := os.ReadFile(log)
		fmt.Fprintf(os.Stderr, "cluster: %s ended: %v\n%s\n", name, err, content[max(0, len(content)-4000):])
		os.Exit(1)
	}()
	return nil
}

// environment returns the environment without the tests' variables.
func environment() []string {
	var list []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "QUEUEGATE_") && !strings.HasPrefix(v, "KUBECONFIG=") {
			list = append(list, v)
		}
	}
	return list
}

// api returns a check that the API server responds on a path.
func (s *starter) api(path string) func() error {
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	return func() error {
		request, err := http.NewRequest(http.MethodGet, "https://127.0.0.1:6443"+path, nil)
		if err != nil {
			return err
		}
		request.Header.Set("Authorization", "Bearer "+adminToken)
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return errors.New(response.Status)
		}
		return nil
	}
}

// repeat repeats try until it succeeds.
func (s *starter) repeat(description string, try func() error) error {
	deadline := time.Now().Add(startTimeout)
	for {
		err := try()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s was not there within %v: %w", description, startTimeout, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (s *starter) write(name, format string, values ...any) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, fmt.Appendf(nil, format, values...), 0o600)
}

// command runs a program. An error contains the program's output.
func command(name string, arguments ...string) error {
	out, err := exec.Command(name, arguments...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(arguments, " "), err, bytes.TrimSpace(out))
	}
	return nil
}

package cluster

// pauseImage is the image that holds a pod's namespaces open.
const pauseImage = "localhost/queuegate-cluster/pause:1"

// cniConfiguration is a format string. Its two values are the state directory and the
// address range of the pods.
const cniConfiguration = `{"cniVersion": "0.4.0", "name": "pods", "plugins": [
 {"type": "bridge", "bridge": "pods0", "isGateway": true, "hairpinMode": true, "ipam":
  {"type": "host-local", "dataDir": "%s/addresses", "ranges": [[{"subnet": "%s"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
 {"type": "portmap", "capabilities": {"portMappings": true}}]}
`

// containerdConfiguration is a format string with four values:
//
//  1. the state directory;
//  2. the pause image;
//  3. the directory of the CNI plugins;
//  4. the directory of CNI's configuration.
//
// Some settings differ from the defaults:
//
//   - oom_score is 0 and restrict_oom_score_adj is set, because a process needs
//     CAP_SYS_RESOURCE to set a score below its own score. Root in a container may lack
//     this capability.
//   - disable_apparmor is set, because a process in a mount namespace cannot load
//     AppArmor profiles.
const containerdConfiguration = `version = 2
root = "%[1]s/containerd/root"
state = "%[1]s/containerd/state"
oom_score = 0
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.internal.v1.opt", "io.containerd.tracing.processor.v1.otlp"]
[grpc]
  address = "%[1]s/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "%[2]s"
  disable_apparmor = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "%[3]s"
    conf_dir = "%[4]s"
`

// kubeletConfiguration is a format string with four values:
//
//  1. the cgroup;
//  2. the state directory;
//  3. the address of the node;
//  4. the feature gates.
//
// Some settings differ from the defaults:
//
//   - failCgroupV1 is false, because some machines still have cgroup version 1.
//   - enforceNodeAllocatable is empty. Otherwise the kubelet would limit the cgroups of
//     the machine itself.
//   - imageGCHighThresholdPercent is 100, so that the kubelet never removes an image. No
//     registry has these images, so the kubelet could not pull them again.
const kubeletConfiguration = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
cgroupDriver: cgroupfs
cgroupRoot: /%[1]s
failCgroupV1: false
failSwapOn: false
enforceNodeAllocatable: []
containerRuntimeEndpoint: unix://%[2]s/containerd.sock
volumePluginDir: %[2]s/volumeplugins
resolvConf: ""
clusterDNS: [%[3]s]
clusterDomain: cluster.local
evictionHard: {memory.available: 100Mi}
imageGCHighThresholdPercent: 100
readOnlyPort: 0
serializeImagePulls: false
featureGates: {%[4]s}
`

// proxyConfiguration is a format string. Its three values are the path of the kubeconfig,
// the name of the node and the address range of the pods. The zeros in conntrack tell
// kube-proxy not to change the kernel's settings.
const proxyConfiguration = `apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
clientConnection: {kubeconfig: %s}
hostnameOverride: %s
mode: iptables
iptables: {minSyncPeriod: 100ms}
clusterCIDR: %s
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
`

// kubeconfig is a format string. Its two values are the path of the API server's
// certificate, and the token of the client.
const kubeconfig = `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:6443", certificate-authority: %s}}]
users: [{name: u, user: {token: %s}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`

const adapterPort = "6444"

// adapterManifest is a format string. Its two values are the address and the port of the
// adapter.
const adapterManifest = `apiVersion: v1
kind: Service
metadata: {name: adapter, namespace: kube-system}
spec: {ports: [{port: 443, targetPort: %[2]s}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: adapter, namespace: kube-system, labels: {kubernetes.io/service-name: adapter}}
addressType: IPv4
ports: [{port: %[2]s}]
endpoints: [{addresses: [%[1]q], conditions: {ready: true}}]
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1beta2.custom.metrics.k8s.io}
spec:
  group: custom.metrics.k8s.io
  version: v1beta2
  groupPriorityMinimum: 100
  versionPriority: 100
  insecureSkipTLSVerify: true
  service: {name: adapter, namespace: kube-system}
`

// Package cluster starts a Kubernetes node and runs the tests of another package inside
// it. The node has its own namespaces for network, mounts and processes, and keeps its
// state in memory. If the first process of the namespaces exits, the kernel ends all
// others.
//
// The package needs Linux, root, and some programs of the distribution: containerd, runc,
// the CNI plugins, iptables, conntrack and ip. If a requirement is not met, the tests are
// skipped with a message that lists all missing requirements.
//
// The test binary starts itself twice, so it runs in three stages:
//
//	host       builds the node, and starts the next stage in new namespaces
//	init       is the first process of the namespaces, and reaps orphaned processes
//	inside     starts the node, then runs the tests
//
// The programs of the node and of its control plane are one binary, which is built from
// Go modules (directory node). The tests are in the packages kubernetes, knative,
// prometheus and suites.
package cluster

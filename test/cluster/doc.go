// Package cluster runs the tests of a package inside a Kubernetes node that it starts
// for them: in new namespaces for network, mounts and processes, with state in memory, and
// with a first process whose exit ends all others. It needs Linux, root, and
// containerd, runc, CNI plugins and iptables of the distribution; without them
// the tests are skipped with a message that lists the missing ones.
//
//	host       builds the node, and enters the namespaces
//	init       is the first process in them, and reaps orphaned processes
//	inside     starts the node, then runs the tests
//
// The node and its control plane are one binary, built from Go modules
// (directory node). Tests are in kubernetes, knative, prometheus and suites.
package cluster

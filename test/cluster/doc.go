// Package cluster runs the tests of a package inside a Kubernetes node of their
// own: namespaces for network, mounts and processes, state in memory, and one
// process whose end is the end of everything in it. It needs Linux, root, and
// containerd, runc, CNI plugins and iptables of the distribution; without them
// the tests are skipped with a line that says what is missing.
//
//	host       builds what the node consists of, and enters the namespaces
//	init       is the first process in them, and reaps what others leave
//	inside     starts the node, then runs the tests
//
// The node and its control plane are one binary, built from Go modules
// (directory node). Tests are in kubernetes and knative.
package cluster

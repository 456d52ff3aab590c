// Package manifests compares the example configuration under config/ with the gate: the
// names of settings, the ports, and the label values in expressions over metrics. Tests
// in pkg/metrics check the expressions themselves.
package manifests

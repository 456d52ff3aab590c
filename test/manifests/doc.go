// Package manifests compares the example configuration in config/ with the gate: names of
// settings, ports, and label values in expressions. Tests in pkg/metrics check the
// expressions themselves.
package manifests

// Package manifests compares the example configuration under config/ with the
// gate: its settings, its ports, and the values of its labels. Expressions over
// metrics are checked in pkg/metrics.
package manifests

// Package manifests holds the example configuration under config/ to the gate:
// its settings, its ports, and the words of its labels. Expressions over metrics
// are checked beside the metrics, in pkg/metrics.
package manifests

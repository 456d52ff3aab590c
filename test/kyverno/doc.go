// Package kyverno applies config/knative/canary-kyverno.yaml to a pod of
// Knative with Kyverno's engine. It is a separate module, and not part of CI:
// Kyverno has 2,600 packages, whose first build takes more than ten minutes on
// two cores.
package kyverno

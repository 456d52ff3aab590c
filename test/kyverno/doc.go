// Package kyverno applies config/knative/canary-kyverno.yaml to a pod of Knative with
// Kyverno's engine. It is a separate module and not part of CI, because the first build
// of Kyverno's 2,600 packages takes more than ten minutes.
package kyverno

// Package kyverno applies config/knative/canary-kyverno.yaml to a pod of Knative
// with Kyverno's own engine. It is a module of its own, and not part of CI: Kyverno
// has 2,600 packages, whose first build takes ten minutes and more on two cores.
package kyverno

// Package admission applies config/knative/canary-v1beta1.yaml to a pod of
// Knative with the admission plugin of the API server of Kubernetes 1.35, the last
// version that reads the policy as v1beta1. The pod is made by Knative's controller
// code and recorded in testdata/pod.json (go test -update), which test/kyverno
// reads too.
package admission

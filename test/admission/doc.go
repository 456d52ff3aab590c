// Package admission applies config/knative/canary-v1beta1.yaml to a pod of Knative. It
// uses the admission plugin of the API server of Kubernetes 1.35, the last version that
// reads the policy as v1beta1. The pod is recorded in testdata/pod.json: Knative's
// controller code created it (go test -update). test/kyverno uses it too.
package admission

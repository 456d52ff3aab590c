// Package admission applies config/knative/canary-v1beta1.yaml to a pod of
// Knative, with the admission plugin of the API server of Kubernetes 1.35, the
// last version that reads the policy as v1beta1. Knative's controller code
// created the pod, which is recorded in testdata/pod.json (go test -update);
// test/kyverno reads it too.
package admission

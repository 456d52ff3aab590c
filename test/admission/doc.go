// Package admission applies config/knative/canary-v1beta1.yaml to a pod of Knative, with
// the admission plugin of the API server of Kubernetes 1.35, the last version that reads
// v1beta1. Knative's controller code has created the pod in testdata/pod.json (go test
// -update). test/kyverno also uses this pod.
package admission

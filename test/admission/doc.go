// Package admission applies config/knative/canary-v1beta1.yaml to a pod of Knative. It
// uses the admission plugin of the API server of Kubernetes 1.35, because this is the
// last version that reads v1beta1. The pod is in testdata/pod.json. To update the pod, go
// test -update runs the code of Knative's controller. test/kyverno also uses this pod.
package admission

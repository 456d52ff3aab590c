// Package render renders config/kubernetes, its overlays and the Helm chart as kubectl
// and helm do, decodes the results strictly, and compares them. It is a separate module
// because of Kustomize, Helm and Kubernetes.
package render

// Package render renders config/kubernetes, its overlays and the Helm chart as
// kubectl and helm do, decodes the results strictly into the types of the APIs,
// and compares the two. It is a separate module because of its dependencies:
// Kustomize, Helm and Kubernetes.
package render

// Package render renders config/kubernetes, its overlays and the Helm chart as
// kubectl and helm do, decodes the result strictly into the types of the APIs,
// and holds the two to the same content. It is a module of its own for the
// libraries of Kustomize, Helm and Kubernetes.
package render

// Package manifest puts the gate into manifests of Kubernetes, and takes it out
// again. It edits bytes: what it has no reason to change keeps its comments, its
// order and its form, and Uninject gives back exactly what Inject was given.
//
// A workload or Service that was changed has an annotation (Annotation) with
// what Uninject puts back. What cannot be rewritten is left as it is, and said.
package manifest

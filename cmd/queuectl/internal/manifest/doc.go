// Package manifest adds the gate to manifests of Kubernetes, and removes it
// again. It edits bytes: text that need not change keeps its comments, order
// and style, and Uninject restores exactly the text that Inject was given.
//
// A changed workload or Service gets an annotation (Annotation) with the data
// that Uninject needs. Objects that cannot be rewritten are left unchanged,
// with a note.
package manifest

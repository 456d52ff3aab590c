// Package manifest adds the gate to Kubernetes manifests, and removes it again. It
// edits the text of a manifest. Text that need not change keeps its comments, order and
// style. Uninject restores exactly the text that Inject was given.
//
// A changed workload or Service gets an annotation (Annotation), which has the data
// that Uninject needs. An object that cannot be rewritten stays unchanged, and a note
// says why.
package manifest

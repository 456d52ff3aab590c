// Package manifest adds the gate to Kubernetes manifests, and removes it again. It
// edits the text, so that comments, order and style are kept. Uninject restores exactly
// the text that Inject was given.
//
// A changed object gets an annotation (Annotation) with the data for Uninject. An
// object that cannot be rewritten stays unchanged, with a note.
package manifest

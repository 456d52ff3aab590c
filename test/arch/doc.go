// Package arch holds the repository to its dependency rules: which package may
// import which, as docs/design.md says.
package arch

// Package arch checks the dependency rules of docs/design.md: which package may
// import which.
package arch

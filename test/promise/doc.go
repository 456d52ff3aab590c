// Package promise compares the guarantees of docs/compatibility.md with a record in
// testdata: the names of settings, metrics and outcomes, and the API of the
// packages for other programs.
//
// New names are recorded with
//
//	go test ./test/promise -update
//
// A name that is removed or changes its form breaks users. If that is intended, record
// it with -update -break, and add a line to CHANGELOG.md under Changed or Removed.
package promise

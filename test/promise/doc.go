// Package promise holds what docs/compatibility.md promises against a record in
// testdata: the names of settings, metrics and outcomes, and the API of the
// packages that are for programs of others.
//
// What is new is recorded with
//
//	go test ./test/promise -update
//
// What has gone, or has another form, breaks users. If that is intended, it is
// recorded with -update -break, and has a line in CHANGELOG.md under Changed or
// Removed.
package promise

// Package micro runs the repository's micro-benchmarks (admission, heads,
// counting, probe schedule) and compares them with the last recorded ones.
//
// A recording, bench/micro.txt, is in the standard benchmark format
// (https://go.dev/design/14313-benchmark-format), so that any tool that reads
// the output of "go test -bench" reads it. Lines "key: value" come before the
// results that they hold for: goos, goarch, pkg and cpu as the test binary
// prints them, and once at the top go, the toolchain, and commit, the revision
// that was measured. A benchmark has as many lines as there were rounds.
package micro

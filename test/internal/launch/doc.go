// Package launch builds and starts the gate for the suites of test/: processes
// that do not outlive the test, ports that nothing else takes.
//
// Nothing in it ends a test: what fails is an error, for the caller to judge.
package launch

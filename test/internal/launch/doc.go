// Package launch builds and starts the gate for the suites of test/. Its processes do
// not outlive the test, and its ports are not used by anything else.
//
// Failures are returned as errors; no function ends a test.
package launch

// Package launch builds and starts the gate for the suites of test/. Its processes do not
// outlive the test, and nothing else uses its ports. Functions return errors and never
// end a test.
package launch

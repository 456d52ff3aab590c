// Package launch builds and starts the gate for the suites of test/. A process that it
// starts does not outlive the test, and a port that it chooses is used by nothing else.
//
// Functions return failures as errors, and end no test.
package launch

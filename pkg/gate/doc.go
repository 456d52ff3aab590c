// Package gate is the request path's shared state: what a request is
// (Classify), whether it may run now (Admission), how it ended (Outcome), when
// the gate stops (Drain), and who is told (Observer).
//
// It knows no HTTP library. The engines in its subdirectories and any program
// that embeds the gate call the same code, so a limit holds across all of
// them. Everything exported is safe for concurrent use unless it says
// otherwise.
package gate

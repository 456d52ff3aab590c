// Package gate is the life of a request, written once for all protocols: what it
// is (Gate.Screen), its states and what moves it (Exchange), whether it may run
// now (Admission), how it ended (Outcome), who is notified (Observer), and when the
// gate stops (Drain). Exchange moves messages between two sides (ClientSide,
// UpstreamSide), which the engines are.
//
// It knows no HTTP library. The engines in its subdirectories and any program
// that embeds the gate call the same code, so a limit holds across all of
// them. Everything exported is safe for concurrent use unless it says
// otherwise.
package gate

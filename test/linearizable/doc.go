// Package linearizable holds admission and pending dials, under real goroutines,
// against plain models of them: whatever they said at once must be explained by
// some order. It is a module of its own for the checker's sake.
package linearizable

// Package linearizable checks admission and pending dials, under real goroutines,
// against plain models of them: some sequential order must explain every
// concurrent history.
package linearizable

// Package linearizable checks admission and the connect queue under real goroutines
// against sequential models: some sequential order must explain every concurrent
// history.
package linearizable

// Package linearizable checks admission and the connect queue under real goroutines: a
// sequential model must explain every concurrent history.
package linearizable

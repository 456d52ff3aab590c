// Package otlptest provides collectors for tests, and a goroutine leak check.
package otlptest

// Package otlptest has collectors for the tests of those that send to them,
// and a check that nothing outlives a package's tests.
package otlptest

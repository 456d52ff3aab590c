// Package quick has benchmarks that take no time, for the tests of micro.
package quick

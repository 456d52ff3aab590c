// Package scenario is what the harness measures: each scenario runs one target
// in front of a fresh origin, puts a load on it, and records figures.
//
// Figures of a target cover its whole tree of processes; CPU and switches are
// those between the first and the last request of the load, with nothing under
// way at either end, so they belong to exactly the requests that were counted.
package scenario

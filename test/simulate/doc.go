// Package simulate runs the gate from a seed, in one thread, on a simulated kernel and a
// virtual clock, between simulated clients and a simulated container. The seed determines
// the whole run.
package simulate

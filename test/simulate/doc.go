// Package simulate runs the gate from a seed: its engines, pools, admission, timeouts
// and drain run on a simulated kernel and a virtual clock, in one thread, between
// simulated clients and a simulated container. The seed determines the whole run, bit
// for bit.
package simulate

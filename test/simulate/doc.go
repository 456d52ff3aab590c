// Package simulate runs the gate from a seed: its engines, pools, admission,
// clocks and drain on a kernel that is simulated, between clients and a
// container that are simulated, in one thread and on a virtual clock. Whatever
// happens follows from the seed, bit for bit.
package simulate

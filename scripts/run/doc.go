// Run starts the demo container and the gate in front of it, prints commands to
// try once the gate responds, and on the first signal stops both: the gate
// first, so that its accepted requests can complete.
//
// Both are killed when run ends for any reason. If one of them exits, run stops
// the other and exits with 1.
package main

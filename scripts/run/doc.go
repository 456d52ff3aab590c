// Run starts the demo container and the gate in front of it. When the gate responds,
// Run prints commands to try. On the first signal it stops the gate and then the
// container, so that accepted requests complete.
//
// If one of the two processes exits, Run stops the other and exits with 1. When Run
// ends, the kernel kills both.
package main

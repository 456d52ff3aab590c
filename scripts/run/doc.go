// Run starts the demo container and the gate in front of it. When the gate responds, it
// prints commands to try. On the first signal it stops both. It stops the gate first,
// so that requests that the gate has accepted can complete.
//
// If one of the two exits, Run stops the other and exits with 1. Both are killed when
// Run itself ends for any reason.
package main

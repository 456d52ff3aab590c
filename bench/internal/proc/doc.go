// Package proc reads from the kernel what processes cost: CPU time, context
// switches, system calls and memory, for a process and all its descendants.
//
// Everything is read from outside, so the process measured does nothing for it.
package proc

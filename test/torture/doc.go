// Package torture runs the real gate between scripted clients and a scripted container,
// breaks one of the three at random moments, and keeps a ledger of every request: what
// the client sent and received, and how often the container received the request.
// docs/reliability.md lists the guarantees that the ledger must confirm.
//
// The short form takes about 40 s. Environment variables:
//
//	TORTURE_TIME=6m      approximate duration of all tests. From 5m on, every test has
//	                     its full number of events. Beyond 6m, only the floods over
//	                     HTTP/2 take longer; with 60m they last ten times as long.
//	SEED=n               repeat the random choices of a run that printed this seed
//	RESTARTS=1000        replace the gate 1,000 times under load, and do the same with
//	                     HAProxy and nginx if they are installed. Without this variable,
//	                     only the gate is replaced, 20 times.
//	QUEUEGATE_RACE=1     build the gate with the race detector
//	QUEUEGATE_BINARY=p   torture this binary instead of building cmd/queue
//
// All traffic stays on loopback addresses. The memory experiments create a control
// group, which needs root. If that is not possible, they only set GOMEMLIMIT, and the
// table says so.
package torture

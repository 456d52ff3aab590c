// Package torture runs the real gate between scripted clients and a scripted
// container, breaks one of the three at random moments, and keeps a ledger of
// every request: what the client sent and got, and how often the container saw
// it. docs/reliability.md says what must hold.
//
// The short form is an ordinary test of some 40 s. The variables are:
//
//	TORTURE_TIME=6m      how long all of it may take, about; from 5m on the counts are full,
//	                     and with 60m floods over HTTP/2 last ten times as long
//	SEED=n               repeat the random choices of a run that printed this seed
//	QUEUEGATE_RACE=1     build the gate with the race detector
//	QUEUEGATE_BINARY=p   torture this binary instead of building cmd/queue
//
// All traffic stays on 127.0.0.1. The memory experiments want a control group
// of their own, which takes root; without one they run with GOMEMLIMIT alone,
// and the table says so.
package torture

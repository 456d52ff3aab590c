// Package torture runs the real gate between scripted clients and a scripted container,
// breaks one of the three at random moments, and keeps a ledger of every request: what
// the client sent and received, and how often the container received the request.
// docs/reliability.md lists the guarantees that the ledger must confirm.
//
// The short form takes about 40 s. Environment variables:
//
//	TORTURE_TIME=6m      approximate duration of all tests; from 5m on the counts are full,
//	                     and with 60m floods over HTTP/2 last ten times as long
//	SEED=n               repeat the random choices of a run that printed this seed
//	RESTARTS=1000        number of upgrades of the gate under load, and the same for HAProxy
//	                     and nginx, where they are installed; without it 20 of the gate
//	QUEUEGATE_RACE=1     build the gate with the race detector
//	QUEUEGATE_BINARY=p   torture this binary instead of building cmd/queue
//
// All traffic stays on 127.0.0.1. The memory experiments create a control group, which
// needs root; without one they run with GOMEMLIMIT only, and the table says so.
package torture

package app

import (
	"fmt"
	"net/netip"
	"sync"

	"go.uber.org/zap"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/exchange"
)

// stateLog logs each change of state of exchanges and client connections.
type stateLog struct {
	log *zap.Logger

	mu      sync.Mutex
	last    uint64                  // number of the last request
	numbers map[*gate.Record]uint64 // of the exchanges that are not idle
}

// newStateLog returns nil unless log is at debug level.
func newStateLog(log *zap.Logger) gate.StateLog {
	if !log.Core().Enabled(zap.DebugLevel) {
		return nil
	}
	return &stateLog{log: log, numbers: make(map[*gate.Record]uint64)}
}

// ExchangeState implements gate.StateLog.
func (l *stateLog) ExchangeState(r *gate.Record, from, to fmt.Stringer) {
	fields := []zap.Field{zap.Uint64("request", l.number(r, to)), zap.Stringer("peer", r.Peer),
		zap.ByteString("method", r.Method), zap.ByteString("target", r.Target)}
	if r.Outcome != gate.Undecided {
		fields = append(fields, zap.Stringer("outcome", r.Outcome))
	}
	l.log.Debug("exchange: "+from.String()+" to "+to.String(), fields...)
}

// number returns the number of the request, which is the same for all lines of the
// request.
func (l *stateLog) number(r *gate.Record, to fmt.Stringer) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.numbers[r]
	if n == 0 {
		l.last++
		n = l.last
		l.numbers[r] = n
	}
	if to == exchange.StateIdle {
		delete(l.numbers, r)
	}
	return n
}

// ConnState implements gate.StateLog.
func (l *stateLog) ConnState(peer netip.AddrPort, protocol string, from, to fmt.Stringer) {
	l.log.Debug(protocol+" connection: "+from.String()+" to "+to.String(), zap.Stringer("peer", peer))
}

package app

import (
	"fmt"
	"net/netip"

	"go.uber.org/zap"

	"github.com/queuegate/queuegate/pkg/gate"
)

// stateLog logs each change of state of exchanges and client connections.
type stateLog struct{ log *zap.Logger }

// newStateLog returns nil unless log is at debug level.
func newStateLog(log *zap.Logger) gate.StateLog {
	if !log.Core().Enabled(zap.DebugLevel) {
		return nil
	}
	return stateLog{log}
}

// ExchangeState implements gate.StateLog.
func (l stateLog) ExchangeState(r *gate.Record, from, to fmt.Stringer) {
	l.log.Debug("exchange: "+from.String()+" to "+to.String(),
		zap.Stringer("peer", r.Peer), zap.ByteString("method", r.Method), zap.ByteString("target", r.Target))
}

// ConnState implements gate.StateLog.
func (l stateLog) ConnState(peer netip.AddrPort, protocol string, from, to fmt.Stringer) {
	l.log.Debug(protocol+" connection: "+from.String()+" to "+to.String(), zap.Stringer("peer", peer))
}

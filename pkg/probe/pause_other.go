//go:build !linux

package probe

import "time"

// pause is not available: timers are used.
type pause struct{}

func newPause() *pause             { return nil }
func (*pause) sleep(time.Duration) {}
func (*pause) wake()               {}
func (*pause) close()              {}

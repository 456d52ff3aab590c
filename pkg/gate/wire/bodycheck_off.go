//go:build !race

package wire

import "github.com/queuegate/queuegate/pkg/gate/wire/h2"

// BodyChecked reports whether BodyCheck is active.
const BodyChecked = false

// BodyCheck is empty without the race detector.
type BodyCheck struct{}

// Begin does nothing.
func (*BodyCheck) Begin([]byte, bool, bool) {}

// BeginHTTP2 does nothing.
func (*BodyCheck) BeginHTTP2(func([]byte, *h2.Encoder) []byte, bool, bool) {}

// Sent does nothing.
func (*BodyCheck) Sent(int) {}

// End does nothing.
func (*BodyCheck) End() {}

// Stop does nothing.
func (*BodyCheck) Stop() {}

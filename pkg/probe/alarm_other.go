//go:build !linux

package probe

import "errors"

// NewKernelAlarm is supported only on Linux.
func NewKernelAlarm() (Alarm, error) { return nil, errors.ErrUnsupported }

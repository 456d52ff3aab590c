//go:build !linux

package probe

import "errors"

// NewKernelAlarm is for Linux.
func NewKernelAlarm() (Alarm, error) { return nil, errors.ErrUnsupported }

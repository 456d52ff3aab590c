//go:build !linux

package probe

import "errors"

// NewKernelAlarm returns an error, because kernel alarms exist only on Linux.
func NewKernelAlarm() (Alarm, error) { return nil, errors.ErrUnsupported }

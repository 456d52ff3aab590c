package gate

// Class says on whose account an outcome is, for figures that people read.
type Class uint8

// The classes.
const (
	_                Class = iota
	ClassSucceeded         // it came to its own end
	ClassRefused           // turned away: the gate had no room for it, or is about to end
	ClassFailed            // accepted, and then the container or the gate did not see it through
	ClassClientError       // the client sent what cannot be served, or left
	classCount
)

var classNames = [classCount]string{"", "succeeded", "refused", "failed", "client-error"}

// String is the class's name in figures.
func (c Class) String() string { return classNames[c] }

// Class is that of the outcome alone: Served has succeeded whatever its status.
func (o Outcome) Class() Class {
	switch o {
	case Served, Tunnelled, Probed:
		return ClassSucceeded
	case QueueFull, QueueWaitExpired, DeadlineExceeded, ShuttingDown, NotReady, OutOfMemoryBudget:
		return ClassRefused
	case CodingNotImplemented, VersionNotSupported:
		return ClassClientError
	}
	if o.Meaning().Status < 500 {
		return ClassClientError
	}
	return ClassFailed
}

// ClassOf is the class of a request that ended with an outcome and a status: the
// container's own response of 500 or more has failed.
func ClassOf(o Outcome, status int) Class {
	if c := o.Class(); c != ClassSucceeded || status < 500 {
		return c
	}
	return ClassFailed
}

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

// Class is derived from the outcome alone: Served counts as a success whatever the
// status.
func (o Outcome) Class() Class { return meanings[o].Class }

// ClassOf is the class of a request that ended with an outcome and a status: the
// container's own response of 500 or more has failed.
func ClassOf(o Outcome, status int) Class {
	if c := o.Class(); c != ClassSucceeded || status < 500 {
		return c
	}
	return ClassFailed
}

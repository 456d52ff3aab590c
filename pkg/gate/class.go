package gate

// Class groups outcomes for reports: success, rejection by the gate, failure of the
// container or of the gate, and error of the client.
type Class uint8

// The classes.
const (
	_                Class = iota
	ClassSucceeded         // completed
	ClassRejected          // rejected: no capacity, or shutting down
	ClassFailed            // accepted, but the container or the gate failed
	ClassClientError       // invalid request, or the client disconnected
	classCount
)

var classNames = [classCount]string{"", "succeeded", "refused", "failed", "client-error"}

// String returns the name of the class.
func (c Class) String() string { return classNames[c] }

// Class returns the class of the outcome. Served is a success regardless of the status.
func (o Outcome) Class() Class { return meanings[o].Class }

// ClassOf returns the class of a request with this outcome and status. A response of the
// container with a status of 500 or above is a failure.
func ClassOf(o Outcome, status int) Class {
	if c := o.Class(); c != ClassSucceeded || status < 500 {
		return c
	}
	return ClassFailed
}

package gate

import "time"

// Took is the time from arrival to the end.
func (x *Exchange) Took() time.Duration { return x.Ended - x.Arrived }

// QueueWait is the time from arrival until it got its slot, or until its end if
// it got none.
func (x *Exchange) QueueWait() time.Duration {
	if x.Admitted == 0 {
		return x.Took()
	}
	return x.Admitted - x.Arrived
}

// UpstreamTime is the time from the first byte that went to the container to
// the end; 0 if none did.
func (x *Exchange) UpstreamTime() time.Duration {
	if x.Forwarded == 0 {
		return 0
	}
	return x.Ended - x.Forwarded
}

// Route is how Knative's ingress says that a request found its revision.
type Route uint8

// The routes.
const (
	RouteDisabled  Route = iota // nothing is said of tags
	RouteDefault                // the default route, without a tag
	RouteUndefined              // a tag that the route does not have
	RouteTagged                 // the tag in Exchange.RouteTag
)

// Route reads the fields Knative-Serving-Tag and Knative-Serving-Default-Route.
func (x *Exchange) Route() Route {
	switch {
	case len(x.RouteTag) == 0 && !x.HasDefaultRoute:
		return RouteDisabled
	case len(x.RouteTag) == 0:
		return RouteDefault
	case string(x.DefaultRoute) == "true":
		return RouteUndefined
	}
	return RouteTagged
}

// String is the value of kn.route.tag, but for RouteTagged, whose value is the
// tag.
func (r Route) String() string {
	return [...]string{"kn:disabled", "kn:default", "kn:undefined", ""}[r]
}

// Methods are those that metrics and spans tell apart; the first stands for all
// others.
var Methods = [...]string{"_OTHER", "GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"}

// MethodIndex is the index of the method among Methods, which are
// case-sensitive (RFC 9110 section 9.1).
func (x *Exchange) MethodIndex() int {
	switch string(x.Method) {
	case "GET":
		return 1
	case "HEAD":
		return 2
	case "POST":
		return 3
	case "PUT":
		return 4
	case "DELETE":
		return 5
	case "CONNECT":
		return 6
	case "OPTIONS":
		return 7
	case "TRACE":
		return 8
	case "PATCH":
		return 9
	}
	return 0
}

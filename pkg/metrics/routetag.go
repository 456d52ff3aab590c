package metrics

import (
	"maps"
	"strings"
	"sync"
	"unicode/utf8"

	"go.uber.org/atomic"

	"github.com/queuegate/queuegate/pkg/gate"
)

// routeTag is the value of a route tag label: a gate.Route, or an index into the
// routeTags that returned it.
type routeTag uint8

// otherTag stands for tags above the maximum, and for invalid ones.
const otherTag = routeTag(gate.RouteTagged)

// Limits of the label.
const (
	firstTag         = otherTag + 1
	maxRouteTags     = 16 + int(firstTag)
	maxRouteTagBytes = 63 // maximum of a DNS label
)

// routeTags assigns numbers to the tags of requests: at most 16, further ones are
// otherTag. The zero value is ready.
type routeTags struct {
	known atomic.Pointer[map[string]routeTag] // replaced, never modified

	learn sync.Mutex
	names []string // by routeTag-firstTag
}

// of returns the routeTag of a request. It allocates for a new tag.
func (t *routeTags) of(x *gate.Record) routeTag {
	route := x.Route()
	if route != gate.RouteTagged {
		return routeTag(route)
	}
	if known := t.known.Load(); known != nil {
		if index, ok := (*known)[string(x.RouteTag)]; ok {
			return index
		}
		if len(*known) == maxRouteTags-int(firstTag) {
			return otherTag
		}
	}
	return t.meet(x.RouteTag)
}

func (t *routeTags) meet(tag []byte) routeTag {
	if len(tag) > maxRouteTagBytes || !utf8.Valid(tag) {
		return otherTag
	}
	name := string(tag)
	for reserved := range firstTag {
		if name == t.name(reserved) || name == t.legacyName(reserved) {
			return otherTag
		}
	}
	t.learn.Lock()
	defer t.learn.Unlock()
	known := map[string]routeTag{}
	if old := t.known.Load(); old != nil {
		known = maps.Clone(*old)
	}
	index, ok := known[name]
	switch {
	case ok:
		return index
	case len(known) == maxRouteTags-int(firstTag):
		return otherTag
	}
	index = firstTag + routeTag(len(known))
	known[name] = index
	t.names = append(t.names, name)
	t.known.Store(&known)
	return index
}

// name returns the value of kn_route_tag.
func (t *routeTags) name(tag routeTag) string {
	switch {
	case tag < otherTag:
		return gate.Route(tag).String()
	case tag == otherTag:
		return "kn:other"
	}
	t.learn.Lock()
	defer t.learn.Unlock()
	return t.names[tag-firstTag]
}

// legacyName returns the value of route_tag.
func (t *routeTags) legacyName(tag routeTag) string {
	name := t.name(tag)
	if tag >= firstTag {
		return name
	}
	return strings.ToUpper(strings.TrimPrefix(name, "kn:"))
}

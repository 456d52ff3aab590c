package metrics

import (
	"maps"
	"strings"
	"sync"
	"unicode/utf8"

	"go.uber.org/atomic"

	"github.com/queuegate/queuegate/pkg/gate"
)

// routeTag is the number of a route tag. The numbers up to otherTag are the values of
// gate.Route. The higher numbers are assigned by a table of type routeTags. They have a
// meaning only in this table.
type routeTag uint8

// otherTag is the routeTag of every invalid tag. Once the table has assigned all its
// numbers, otherTag is also the routeTag of every new tag.
const otherTag = routeTag(gate.RouteTagged)

// Limits of the label.
const (
	firstTag         = otherTag + 1
	maxRouteTags     = 16 + int(firstTag)
	maxRouteTagBytes = 63 // maximum length of a DNS label
)

// routeTags assigns numbers to the first 16 distinct tags; further tags are otherTag.
// The zero value is ready.
type routeTags struct {
	known atomic.Pointer[map[string]routeTag] // copy-on-write

	learn sync.Mutex
	names []string // names[i] has the number firstTag+i
}

// tagOf returns the routeTag of a request. It allocates if the tag is new.
func (t *routeTags) tagOf(x *gate.Record) routeTag {
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

// name returns the value of the label kn_route_tag.
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

// legacyName returns the value of the label route_tag.
func (t *routeTags) legacyName(tag routeTag) string {
	name := t.name(tag)
	if tag >= firstTag {
		return name
	}
	return strings.ToUpper(strings.TrimPrefix(name, "kn:"))
}

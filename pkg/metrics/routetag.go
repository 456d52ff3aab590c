package metrics

import (
	"sync"
	"unicode/utf8"

	"go.uber.org/atomic"
)

// RouteTag is the value of a route tag label. It is an index into the
// RouteTags that gave it.
type RouteTag uint8

// Route tags that are no tags of a route.
const (
	TagDisabled  RouteTag = iota // the ingress tells nothing of tags
	TagDefault                   // the default route, without a tag
	TagUndefined                 // a tag that the route does not have
	TagOther                     // one tag too many, or none that a route can have
	reservedTags
)

// Bounds of the label.
const (
	maxRouteTags     = 16 + int(reservedTags)
	maxRouteTagBytes = 63 // of a DNS label
)

var (
	currentTagWords = [reservedTags]string{"kn:disabled", "kn:default", "kn:undefined", "kn:other"}
	legacyTagWords  = [reservedTags]string{"DISABLED", "DEFAULT", "UNDEFINED", "OTHER"}
)

// RouteTags learns the tags that requests carry: 16 at most, any more are
// TagOther. The zero value is ready.
type RouteTags struct {
	known atomic.Pointer[map[string]RouteTag] // replaced, never changed

	learn sync.Mutex
	names []string // by RouteTag-reservedTags
}

// Tag is the route tag of a request from the values of its fields
// Knative-Serving-Tag and Knative-Serving-Default-Route; hasDefault tells an
// absent second field from an empty one. It keeps neither slice, and
// allocates when it meets a tag for the first time.
func (t *RouteTags) Tag(tag, defaultRoute []byte, hasDefault bool) RouteTag {
	switch {
	case len(tag) == 0 && !hasDefault:
		return TagDisabled
	case len(tag) == 0:
		return TagDefault
	case string(defaultRoute) == "true":
		return TagUndefined
	}
	if known := t.known.Load(); known != nil {
		if index, ok := (*known)[string(tag)]; ok {
			return index
		}
		if len(*known) == maxRouteTags-int(reservedTags) {
			return TagOther
		}
	}
	return t.meet(tag)
}

func (t *RouteTags) meet(tag []byte) RouteTag {
	if len(tag) > maxRouteTagBytes || !utf8.Valid(tag) {
		return TagOther
	}
	name := string(tag)
	for i := range reservedTags {
		if name == currentTagWords[i] || name == legacyTagWords[i] {
			return TagOther
		}
	}
	t.learn.Lock()
	defer t.learn.Unlock()
	known := map[string]RouteTag{}
	if old := t.known.Load(); old != nil {
		if index, ok := (*old)[name]; ok {
			return index
		}
		for k, v := range *old {
			known[k] = v
		}
	}
	if len(known) == maxRouteTags-int(reservedTags) {
		return TagOther
	}
	index := reservedTags + RouteTag(len(known))
	known[name] = index
	t.names = append(t.names, name)
	t.known.Store(&known)
	return index
}

// name is the value of the label, with the words of one generation.
func (t *RouteTags) name(tag RouteTag, words *[reservedTags]string) string {
	if tag < reservedTags {
		return words[tag]
	}
	t.learn.Lock()
	defer t.learn.Unlock()
	return t.names[tag-reservedTags]
}

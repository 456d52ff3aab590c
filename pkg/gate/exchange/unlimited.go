package exchange

import (
	"bytes"
	"cmp"
	"errors"
	"strings"

	"github.com/queuegate/queuegate/pkg/gate/admission"
)

// DefaultUnlimitedCapacity is the default of Config.UnlimitedCapacity.
const DefaultUnlimitedCapacity = 8

// PathPattern matches one path, or all paths with a prefix.
type PathPattern struct {
	path   string
	prefix bool
}

// ParsePathPattern parses a path, such as /health, or a prefix followed by *, such as
// /health/*.
func ParsePathPattern(text string) (PathPattern, error) {
	path, prefix := strings.CutSuffix(text, "*")
	invisible := func(r rune) bool { return r <= ' ' || r >= 0x7f }
	if !strings.HasPrefix(path, "/") || strings.ContainsAny(path, "?#*%") || strings.ContainsFunc(path, invisible) ||
		prefix && !strings.HasSuffix(path, "/") {
		return PathPattern{}, errors.New("not a path, or a path that ends in /*")
	}
	return PathPattern{path, prefix}, nil
}

// String returns the text that ParsePathPattern parses.
func (p PathPattern) String() string {
	if p.prefix {
		return p.path + "*"
	}
	return p.path
}

// matches reports whether the pattern matches a path without a query. A prefix does not
// match if the rest of the path contains a percent sign, a backslash, a semicolon, an
// empty segment, or a segment that begins with a dot. The container might resolve such a
// path to one that does not begin with the prefix.
func (p PathPattern) matches(path []byte) bool {
	if !p.prefix {
		return string(path) == p.path
	}
	rest, ok := bytes.CutPrefix(path, []byte(p.path))
	return ok && !bytes.ContainsAny(rest, "%\\;") && !bytes.HasPrefix(rest, []byte("/")) &&
		!bytes.HasPrefix(rest, []byte(".")) && !bytes.Contains(rest, []byte("/.")) && !bytes.Contains(rest, []byte("//"))
}

// unlimited admits requests for Config.UnlimitedPaths. nil = there are no such paths. Its
// methods may be called from any goroutine.
type unlimited struct {
	paths []PathPattern
	slots *admission.Controller // grants up to UnlimitedCapacity slots; has no queue
}

func newUnlimited(c *Config) *unlimited {
	if len(c.UnlimitedPaths) == 0 {
		return nil
	}
	return &unlimited{
		paths: c.UnlimitedPaths,
		slots: admission.New(admission.Config{Limit: cmp.Or(c.UnlimitedCapacity, DefaultUnlimitedCapacity)}),
	}
}

// acquire takes a slot for x, if its path matches and a slot is free.
func (u *unlimited) acquire(x *Exchange) bool {
	return u != nil && u.matches(x.Target) && x.ticket.TryAcquire(u.slots)
}

func (u *unlimited) matches(target []byte) bool {
	path, _, _ := bytes.Cut(target, []byte{'?'})
	for _, p := range u.paths {
		if p.matches(path) {
			return true
		}
	}
	return false
}

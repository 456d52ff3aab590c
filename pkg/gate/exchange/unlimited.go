package exchange

import (
	"bytes"
	"errors"
	"strings"

	"go.uber.org/atomic"
)

// DefaultUnlimitedCapacity is the default of Config.UnlimitedCapacity.
const DefaultUnlimitedCapacity = 8

// PathPattern matches request paths: one path, or all paths below a prefix.
type PathPattern struct {
	path   string
	prefix bool
}

// ParsePathPattern parses a path that begins with a slash, or a prefix followed by *,
// such as /health/*.
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

// matches reports whether the pattern matches a path, without the query and undecoded.
// Below a prefix, a path with "." or ".." segments, an empty segment or a
// percent-encoding does not match: the container might resolve it to another path.
func (p PathPattern) matches(path []byte) bool {
	if !p.prefix {
		return string(path) == p.path
	}
	rest, ok := bytes.CutPrefix(path, []byte(p.path))
	return ok && !bytes.ContainsAny(rest, "%\\;") && !bytes.HasPrefix(rest, []byte("/")) &&
		!bytes.HasPrefix(rest, []byte(".")) && !bytes.Contains(rest, []byte("/.")) && !bytes.Contains(rest, []byte("//"))
}

// unlimited admits requests for Config.UnlimitedPaths without a slot, up to a capacity;
// nil = no such paths. Its methods may be called from any goroutine.
type unlimited struct {
	paths []PathPattern
	max   int64
	num   atomic.Int64 // in flight
}

func newUnlimited(c *Config) *unlimited {
	if len(c.UnlimitedPaths) == 0 {
		return nil
	}
	u := &unlimited{paths: c.UnlimitedPaths, max: int64(c.UnlimitedCapacity)}
	if u.max == 0 {
		u.max = DefaultUnlimitedCapacity
	}
	return u
}

// acquire counts a request, if a pattern matches its target and the capacity is not
// reached.
func (u *unlimited) acquire(target []byte) bool {
	if u == nil || !u.matches(target) {
		return false
	}
	if u.num.Inc() > u.max {
		u.num.Dec()
		return false
	}
	return true
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

// release ends a request that acquire counted.
func (u *unlimited) release() { u.num.Dec() }

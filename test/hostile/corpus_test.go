package hostile

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

type wantKind uint8

const (
	wantForward wantKind = iota // valid: forwarded unchanged as one message
	wantEither                  // forwarded, or rejected with a status in want.statuses
	wantReject                  // local reply and close; nothing reaches the container
	wantGate                    // local reply; nothing reaches the container
	// The request is incomplete or malformed, and the container may get a part of it. The
	// gate rejects it or breaks it off, and closes the connection. The container never
	// gets a complete message.
	wantBreak
	// The bytes are not HTTP/1. The connection ends in time, after any response or none.
	// The container gets no message.
	wantForeign
	wantFault // the container's response is bad: the client gets a local reply instead
	// The container's response is incomplete. The client gets a visibly truncated response
	// or a 502, but no response that looks complete.
	wantCut
	wantTunnel // 101, then bytes in both directions
)

var wantNames = map[string]wantKind{
	"forward": wantForward, "either": wantEither, "reject": wantReject, "gate": wantGate, "break": wantBreak,
	"foreign": wantForeign, "fault": wantFault, "cut": wantCut, "tunnel": wantTunnel,
}

func (k wantKind) String() string {
	for name, kind := range wantNames {
		if kind == k {
			return name
		}
	}
	return strconv.Itoa(int(k))
}

// want is the expected result of a message.
type want struct {
	kind     wantKind
	statuses []int // allowed statuses; empty = any
}

func (w want) allows(status int) bool {
	for _, s := range w.statuses {
		if s == status {
			return true
		}
	}
	return len(w.statuses) == 0
}

type hostileCase struct {
	file, name, section string
	request, response   string // scripts
	wants               []want
	target              string // target that the container must get; "" = as sent
	raw                 string // bytes for the client after a 101
	// The message must be forwarded with the fields in seen ("Name: value"), and without
	// the fields in unseen ("Name: value", or "Name" for every value).
	seen, unseen []string
	alone        bool // no variants
	splits       bool // also sent in two pieces, once for each possible cut
	smuggling    bool // bytes after a rejected message must not be served as a request
	early        bool // the container responds when it has the head of the request
	unasked      bool // the container sends its response before a request
	closes       bool // the gate closes after the last response
}

func (c *hostileCase) testsResponse() bool { return c.response != "" }

func readCorpus() ([]*hostileCase, error) {
	paths, err := filepath.Glob("testdata/*/*.txt")
	if err != nil {
		return nil, err
	}
	var all []*hostileCase
	names := map[string]bool{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		cases, err := parseCases(strings.TrimPrefix(filepath.ToSlash(path), "testdata/"), string(text))
		if err != nil {
			return nil, err
		}
		for _, c := range cases {
			if names[c.file+c.name] {
				return nil, fmt.Errorf("%s: two cases are named %q", path, c.name)
			}
			names[c.file+c.name] = true
		}
		all = append(all, cases...)
	}
	return all, nil
}

// parseCases reads the cases of one file in the syntax of testdata/README.md.
func parseCases(file, text string) ([]*hostileCase, error) {
	var all []*hostileCase
	var values []string
	base := hostileCase{file: file}
	current := base
	flush := func() error {
		if current.name == "" {
			base = current
			return nil
		}
		if len(current.wants) == 0 || current.section == "" || current.request == "" && !current.testsResponse() {
			return fmt.Errorf("%s: %q lacks a script, a section or an expectation", file, current.name)
		}
		if current.request == "" {
			current.request = "GET /{T} HTTP/1.1\r\nHost: hostile\r\n\r\n"
		}
		if values == nil {
			c := current
			all = append(all, &c)
		}
		for _, v := range values {
			c := current
			if !strings.Contains(c.name, "{V}") {
				c.name += " ({V})"
			}
			for _, text := range []*string{&c.name, &c.request, &c.response, &c.target, &c.raw} {
				*text = strings.ReplaceAll(*text, "{V}", v)
			}
			c.seen, c.unseen = slices.Clone(c.seen), slices.Clone(c.unseen)
			for _, list := range [][]string{c.seen, c.unseen} {
				for i := range list {
					list[i] = strings.ReplaceAll(list[i], "{V}", v)
				}
			}
			all = append(all, &c)
		}
		return nil
	}
	for i, line := range strings.Split(text, "\n") {
		var err error
		switch {
		case strings.HasPrefix(line, "== "):
			err = flush()
			current, values = base, nil
			current.name = strings.TrimPrefix(line, "== ")
		case strings.HasPrefix(line, ">"):
			current.request += scriptLine(line[1:])
		case strings.HasPrefix(line, "<"):
			current.response += scriptLine(line[1:])
		case strings.HasPrefix(line, "with "):
			values = append(values, strings.TrimPrefix(line, "with "))
		case line == "with":
			values = append(values, "")
		case line == "" || strings.HasPrefix(line, "#"):
		default:
			err = current.directive(line)
		}
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, i+1, err)
		}
	}
	return all, flush()
}

// scriptLine returns a line with CRLF, or without it if the line ends in a backslash.
func scriptLine(line string) string {
	trimmed := strings.TrimRight(line, `\`)
	if (len(line)-len(trimmed))%2 == 1 {
		return line[:len(line)-1]
	}
	return line + "\r\n"
}

func (c *hostileCase) directive(line string) error {
	command, rest, _ := strings.Cut(line, " ")
	switch command {
	case "rfc", "contract":
		c.section = line
	case "expect":
		for _, one := range strings.Split(rest, ", ") {
			args := strings.Fields(one)
			kind, ok := wantNames[args[0]]
			if !ok {
				return fmt.Errorf("unknown expectation %q", one)
			}
			w := want{kind: kind}
			for _, s := range args[1:] {
				n, err := strconv.Atoi(s)
				if err != nil {
					return err
				}
				w.statuses = append(w.statuses, n)
			}
			c.wants = append(c.wants, w)
		}
	case "target":
		c.target = rest
	case "raw":
		c.raw = rest
	case "seen":
		c.seen = append(c.seen[:len(c.seen):len(c.seen)], rest)
	case "unseen":
		c.unseen = append(c.unseen[:len(c.unseen):len(c.unseen)], rest)
	case "alone":
		c.alone = true
	case "splits":
		c.splits = true
	case "smuggling":
		c.smuggling = true
	case "early":
		c.early = true
	case "unasked":
		c.unasked = true
	case "closes":
		c.closes = true
	default:
		return fmt.Errorf("unknown directive %q", command)
	}
	return nil
}

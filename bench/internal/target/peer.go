package target

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
)

// Peer returns a target that already runs, at a URL such as http://10.0.0.7:8080. The
// harness cannot configure a peer or measure its CPU and memory, so peers take part only
// in scenarios that require nothing but HTTP.
func Peer(name, location string) (*Target, error) {
	if !nameRE.MatchString(name) {
		return nil, fmt.Errorf("peer %q: the name must be lower-case letters, digits and hyphens", name)
	}
	u, err := url.Parse(location)
	switch {
	case err != nil:
		return nil, fmt.Errorf("peer %s: %w", name, err)
	case u.Scheme != "http" || u.Hostname() == "" || u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.User != nil:
		return nil, fmt.Errorf("peer %s: %q is not a URL of the form http://HOST:PORT", name, location)
	}
	port := u.Port()
	if port == "" {
		port = "80"
	}
	found, err := net.ResolveTCPAddr("tcp4", net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		return nil, fmt.Errorf("peer %s: %w", name, err)
	}
	at := found.AddrPort()
	return &Target{
		Name: name, About: "a peer that runs already, at " + location, Does: []string{HTTP}, Ready: "/",
		peer: netip.AddrPortFrom(at.Addr().Unmap(), at.Port()),
	}, nil
}

// IsPeer reports whether the target was made by Peer.
func (t *Target) IsPeer() bool { return t.peer.IsValid() }

// Started reports whether the harness starts the target, which is false for Direct and
// peers.
func (t *Target) Started() bool { return t.Name != Direct && !t.IsPeer() }

package config

import (
	"cmp"
	"crypto/tls"
	"net"
	"net/netip"
	"net/url"
	"strings"

	"github.com/queuegate/queuegate/pkg/gate/exchange"
	"github.com/queuegate/queuegate/pkg/gate/tlsfront"
)

var (
	// freeText is a name from the platform (revision, pod), which the gate does not
	// interpret.
	freeText = textKind("TEXT", "any text", plain, accept(anyText))
	// longText is not shown on the status page.
	longText = textKind("TEXT", "any text", nil, accept(anyText))

	// logTemplate is validated by checkTemplate.
	logTemplate = textKind("TEMPLATE", "json, or a Go template over .Request, .Response, .Revision and .TraceID", plain, accept(anyText))

	address  = textKind("ADDRESS", "an IP address without brackets or port", plain, accept(isAddress))
	host     = textKind("HOST", "an IP address or a host name, without brackets or port", plain, accept(isHost))
	endpoint = textKind("ENDPOINT", "a URL (http or https) or host:port", maskEndpoint, accept(isEndpoint))

	loopbackURL = textKind("URL", "an http URL of this pod such as http://127.0.0.1:8000/metrics (localhost or a loopback address)", plain, accept(isLoopbackURL))

	hookURL = textKind("URL", "an http URL of this pod such as http://127.0.0.1:8000/sleep?level=1 (localhost or a loopback address)", plain, accept(isLoopbackURL))

	// A directory or file need not exist at start-up.
	directory = textKind("DIRECTORY", "an absolute path", plain, accept(isPath))
	file      = textKind("FILE", "an absolute path", plain, accept(isPath))
	socket    = textKind("SOCKET", "an absolute path, or @name for an abstract socket, of at most 107 bytes", plain, accept(isSocket))

	urlPaths     = list("PATHS", "paths that begin with a slash and have no query, separated by commas", texts(isURLPath))
	pathPatterns = list("PATHS", "paths that begin with a slash, or end in /* for all below, without query and percent-encoding, separated by commas",
		element[exchange.PathPattern]{
			func(text string) (exchange.PathPattern, bool) {
				p, err := exchange.ParsePathPattern(text)
				return p, err == nil
			},
			exchange.PathPattern.String,
		})
	// Each name is checked later, by checkLive, against the table of settings. A check
	// here would cause an initialization cycle, because the table refers to liveNames.
	liveNames      = list("NAMES", "flags of live settings without dashes, separated by commas, or none", texts(isLabel))
	containerNames = list("NAMES", "container names (a to z, 0 to 9 and -, at most 63 each), separated by commas", texts(isLabel))
	certNames      = list("NAMES", "DNS names or URIs, separated by commas", texts(isPrintable))

	// prefixes ignores host bits. IPv4-mapped IPv6 prefixes become IPv4.
	prefixes = list("CIDRS", "CIDRs or IP addresses, separated by commas", element[netip.Prefix]{parsePrefix, netip.Prefix.String})

	tlsVersion   = choice([]string{"1.2", "1.3"}, []uint16{tls.VersionTLS12, tls.VersionTLS13})
	cipherSuites = lenient(list("NAMES", "names of TLS 1.2 and 1.3 cipher suites as Go spells them, separated by commas",
		element[uint16]{
			func(name string) (uint16, bool) { return first(tlsfront.CipherSuites([]string{name})) },
			tls.CipherSuiteName,
		}))
	curves = lenient(list("NAMES", "X25519, X25519MLKEM768, P-256, P-384 or P-521, separated by commas",
		element[tls.CurveID]{
			func(name string) (tls.CurveID, bool) {
				if size, ok := strings.CutPrefix(name, "P-"); ok {
					name = "CurveP" + size
				}
				return first(tlsfront.Curves([]string{name}))
			},
			tls.CurveID.String,
		}))
)

func first[T any](values []T, err error) (v T, ok bool) {
	if err != nil {
		return v, false
	}
	return values[0], true
}

const lowerAlphanumeric = "abcdefghijklmnopqrstuvwxyz0123456789"

func isAddress(text string) bool {
	_, err := netip.ParseAddr(text)
	return err == nil
}

func parsePrefix(text string) (netip.Prefix, bool) {
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		address, err := netip.ParseAddr(text)
		address = address.Unmap()
		return netip.PrefixFrom(address, address.BitLen()), err == nil && address.Zone() == ""
	}
	if mapped := prefix.Addr(); mapped.Is4In6() && prefix.Bits() >= 96 {
		prefix = netip.PrefixFrom(mapped.Unmap(), prefix.Bits()-96)
	}
	return prefix.Masked(), true
}

func isHost(host string) bool {
	if isAddress(host) {
		return true
	}
	if host == "" || len(host) > 253 || host[0] == '.' || host[0] == '-' || strings.Contains(host, "..") {
		return false
	}
	return strings.Trim(host, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"+lowerAlphanumeric+"-_.") == ""
}

func isEndpoint(endpoint string) bool {
	if strings.Contains(endpoint, "://") {
		return isURL(endpoint)
	}
	authority, _, _ := strings.Cut(endpoint, "/")
	host, port, ok := splitHostPort(authority)
	return ok && port != "" && isHost(host) && isURL("https://"+endpoint)
}

func isURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != ""
}

// isLoopbackURL reports whether text is an http URL without user and fragment whose host
// is localhost or a loopback address.
func isLoopbackURL(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" || u.User != nil || u.Fragment != "" || u.Opaque != "" || !isPrintable(text) {
		return false
	}
	if _, err := port.parse(cmp.Or(u.Port(), "80")); err != nil {
		return false
	}
	address, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && address.Unmap().IsLoopback()
}

func splitHostPort(text string) (host, portText string, ok bool) {
	host, portText, err := net.SplitHostPort(text)
	if err != nil || portText == "" {
		return "", "", false
	}
	_, err = port.parse(portText)
	return host, portText, err == nil
}

func isPath(text string) bool { return text[0] == '/' && strings.IndexByte(text, 0) < 0 }

// longestSocket is the maximum length of a socket's path, without the terminating zero
// (unix(7)).
const longestSocket = 107

func isSocket(text string) bool {
	abstract := text[0] == '@' && len(text) > 1 && strings.IndexByte(text, 0) < 0
	return len(text) <= longestSocket && (abstract || isPath(text))
}

// isPrintable reports whether text is printable ASCII without spaces.
func isPrintable(text string) bool {
	for i := range len(text) {
		if text[i] <= ' ' || text[i] >= 0x7f {
			return false
		}
	}
	return text != ""
}

func isURLPath(path string) bool {
	return isPrintable(path) && path[0] == '/' && !strings.ContainsAny(path, "?#")
}

// isLabel reports whether name is a DNS label, as a container name in Kubernetes must
// be.
func isLabel(name string) bool {
	return name != "" && len(name) <= 63 && name[0] != '-' && name[len(name)-1] != '-' &&
		strings.Trim(name, lowerAlphanumeric+"-") == ""
}

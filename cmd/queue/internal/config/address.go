package config

import (
	"net"
	"net/netip"
	"net/url"
	"strings"
)

// addressValue is an IP address to listen on.
type addressValue string

func (v *addressValue) set(text string) error {
	if _, err := netip.ParseAddr(text); err != nil {
		return errNotAccepted
	}
	*v = addressValue(text)
	return nil
}
func (v *addressValue) text() string  { return string(*v) }
func (*addressValue) accepts() string { return "an IP address without brackets or port" }
func (*addressValue) hint() string    { return "ADDRESS" }

// hostValue is an IP address or a host name to dial.
type hostValue string

func (v *hostValue) set(text string) error {
	if !validHost(text) {
		return errNotAccepted
	}
	*v = hostValue(text)
	return nil
}
func (v *hostValue) text() string  { return string(*v) }
func (*hostValue) accepts() string { return "an IP address or a host name, without brackets or port" }
func (*hostValue) hint() string    { return "HOST" }

func validHost(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	if host == "" || len(host) > 253 || host[0] == '.' || host[0] == '-' {
		return false
	}
	for i := 0; i < len(host); i++ {
		c := host[i]
		if c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_' {
			continue
		}
		if c != '.' || host[i-1] == '.' {
			return false
		}
	}
	return true
}

// endpointValue is where traces or metrics are sent to.
type endpointValue string

func (v *endpointValue) set(text string) error {
	if !validEndpoint(text) {
		return errNotAccepted
	}
	*v = endpointValue(text)
	return nil
}
func (v *endpointValue) text() string  { return string(*v) }
func (*endpointValue) accepts() string { return "a URL (http or https) or host:port" }
func (*endpointValue) hint() string    { return "ENDPOINT" }

func validEndpoint(endpoint string) bool {
	if strings.Contains(endpoint, "://") {
		return isURL(endpoint)
	}
	host, port, ok := splitHostPort(endpoint)
	return ok && port > 0 && validHost(host)
}

func isURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != ""
}

// splitHostPort takes "host:port", "[host]:port" and ":port".
func splitHostPort(text string) (host string, port int, ok bool) {
	host, digits, err := net.SplitHostPort(text)
	if err != nil {
		return "", 0, false
	}
	n, ok := parseWhole(digits)
	if !ok || n < 1 || n > 65535 {
		return "", 0, false
	}
	return host, int(n), true
}

// directoryValue is an absolute path. Whether it is there is found out by whoever opens it.
type directoryValue string

func (v *directoryValue) set(text string) error {
	if text[0] != '/' || strings.IndexByte(text, 0) >= 0 {
		return errNotAccepted
	}
	*v = directoryValue(text)
	return nil
}
func (v *directoryValue) text() string  { return string(*v) }
func (*directoryValue) accepts() string { return "an absolute path" }
func (*directoryValue) hint() string    { return "DIRECTORY" }

// socketValue is the address of a Unix socket: an absolute path, or @ and a name for Linux's abstract namespace.
type socketValue string

// longestSocket is what fits into sun_path (unix(7)) with its closing zero.
const longestSocket = 107

func (v *socketValue) set(text string) error {
	if text[0] != '/' && (text[0] != '@' || len(text) == 1) || len(text) > longestSocket || strings.IndexByte(text, 0) >= 0 {
		return errNotAccepted
	}
	*v = socketValue(text)
	return nil
}
func (v *socketValue) text() string { return string(*v) }
func (*socketValue) accepts() string {
	return "an absolute path, or @name for an abstract socket, of at most 107 bytes"
}
func (*socketValue) hint() string { return "SOCKET" }

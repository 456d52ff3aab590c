package config

import (
	"slices"
	"strings"
)

// The names are those of crypto/tls, without its init-time cost in processes that serve no TLS. A test compares them.
var tlsCipherSuites = []string{
	"TLS_AES_128_GCM_SHA256",
	"TLS_AES_256_GCM_SHA384",
	"TLS_CHACHA20_POLY1305_SHA256",
	"TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
	"TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
	"TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
	"TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
	"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
	"TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
	"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
	"TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
	"TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
	"TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
}

var tlsCurves = []string{"X25519", "X25519MLKEM768", "CurveP256", "CurveP384", "CurveP521"}

// tlsNamesValue is a list of names of suites or curves. As with Knative, empty elements are skipped and P-256 means CurveP256.
type tlsNamesValue struct {
	field *[]string
	known []string
	want  string
}

func cipherSuiteList(field *[]string) fieldValue {
	return tlsNamesValue{field, tlsCipherSuites, "names of TLS 1.2 and 1.3 cipher suites as Go spells them, separated by commas"}
}

func curveList(field *[]string) fieldValue {
	return tlsNamesValue{field, tlsCurves, "X25519, X25519MLKEM768, P-256, P-384 or P-521, separated by commas"}
}

func (v tlsNamesValue) set(text string) error {
	var names []string
	for element := range strings.SplitSeq(text, ",") {
		name := strings.TrimSpace(element)
		if name == "" {
			continue
		}
		if size, ok := strings.CutPrefix(name, "P-"); ok {
			name = "CurveP" + size
		}
		if !slices.Contains(v.known, name) {
			return errNotAccepted
		}
		names = append(names, name)
	}
	*v.field = names
	return nil
}
func (v tlsNamesValue) text() string    { return strings.Join(*v.field, ",") }
func (v tlsNamesValue) accepts() string { return v.want }
func (tlsNamesValue) hint() string      { return "NAMES" }

// fileValue is the absolute path of a file. Whether it is there is found out by whoever opens it.
type fileValue string

func (v *fileValue) set(text string) error { return (*directoryValue)(v).set(text) }
func (v *fileValue) text() string          { return string(*v) }
func (*fileValue) accepts() string         { return "an absolute path" }
func (*fileValue) hint() string            { return "FILE" }

func sanList(field *[]string) fieldValue {
	return listValue{field, "DNS names or URIs, separated by commas", "NAMES", checkSAN}
}

func checkSAN(name string) error {
	for i := 0; i < len(name); i++ {
		if name[i] <= ' ' || name[i] >= 0x7f {
			return errNotAccepted
		}
	}
	if name == "" {
		return errNotAccepted
	}
	return nil
}

// checkTLS reports settings of TLS that are of no use without another.
func (l *loading) checkTLS() {
	c := &l.cfg
	if len(c.TLSClientSANs) > 0 && c.TLSClientCA == "" && !l.bad[settingIndex("TLS_CLIENT_CA")] {
		l.problem("TLS_CLIENT_SANS", "TLS_CLIENT_SANS=%s: want TLS_CLIENT_CA as well, else anybody could sign these names",
			quoteShort(strings.Join(c.TLSClientSANs, ",")))
	}
	if c.TLSOnly && c.ServingTLSPort == 0 && !l.bad[settingIndex("QUEUE_SERVING_TLS_PORT")] {
		l.problem("TLS_ONLY", "TLS_ONLY=true: want a port in QUEUE_SERVING_TLS_PORT")
	}
	if c.UpstreamTLS == "true" && c.UpstreamTLSCA == "" && c.RootCA == "" && c.UpstreamTLSServerName == "" && !c.UpstreamTLSInsecure &&
		!l.bad[settingIndex("UPSTREAM_TLS_CA")] && !l.bad[settingIndex("UPSTREAM_TLS_SERVER_NAME")] && !l.bad[settingIndex("UPSTREAM_TLS_INSECURE")] {
		l.problem("UPSTREAM_TLS", "UPSTREAM_TLS=true: want UPSTREAM_TLS_CA, UPSTREAM_TLS_SERVER_NAME or UPSTREAM_TLS_INSECURE, to know how the container is verified")
	}
}

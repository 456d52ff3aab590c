package tlsfront

import (
	"crypto/fips140"
	"crypto/tls"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/queuegate/queuegate/internal/testkit"
	"github.com/queuegate/queuegate/pkg/gate/internal/testcert"
)

func TestVersionsSuitesAndCurvesFollowTheSettings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change func(*Config)
		client *tls.Config
		fails  bool
	}{
		{"1.2 by default", func(*Config) {}, &tls.Config{MaxVersion: tls.VersionTLS12}, false},
		{"1.1 never", func(*Config) {}, &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}, true},
		{"lowest 1.3", func(c *Config) { c.MinVersion = tls.VersionTLS13 }, &tls.Config{MaxVersion: tls.VersionTLS12}, true},
		{"highest 1.2", func(c *Config) { c.MaxVersion = tls.VersionTLS12 }, &tls.Config{MinVersion: tls.VersionTLS13}, true},
		{"a suite in common", func(c *Config) { c.CipherSuites = []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384} },
			&tls.Config{MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384}}, false},
		{"no suite in common", func(c *Config) { c.CipherSuites = []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384} },
			&tls.Config{MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256}}, true},
		{"a curve in common", func(c *Config) { c.Curves = []tls.CurveID{tls.CurveP384} }, &tls.Config{CurvePreferences: []tls.CurveID{tls.CurveP384}}, false},
		{"no curve in common", func(c *Config) { c.Curves = []tls.CurveID{tls.CurveP384} }, &tls.Config{CurvePreferences: []tls.CurveID{tls.X25519}}, true},
		{"h2 is not offered", func(*Config) {}, &tls.Config{NextProtos: []string{"h2"}}, true},
		{"http/1.1 is", func(*Config) {}, &tls.Config{NextProtos: []string{"h2", "http/1.1"}}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, config := prepare(t)
			f.write(f.dir, "x")
			c.change(&config)
			f.start(config)
			if _, err := f.handshake(c.client); (err != nil) != c.fails {
				t.Errorf("handshake: %v", err)
			}
		})
	}
}

// In FIPS 140-3 mode crypto/tls uses only approved suites and curves. In normal mode it
// uses all of them.
func TestOnlyApprovedSuitesAndCurvesWorkInFIPSMode(t *testing.T) {
	t.Parallel()
	try := func(name string, approved bool, config *tls.Config) {
		t.Run(name, func(t *testing.T) {
			f, c := prepare(t)
			f.write(f.dir, "x")
			c.CipherSuites, c.Curves = config.CipherSuites, config.CurvePreferences
			f.start(c)
			if _, err := f.handshake(config); (err == nil) != (approved || !fips140.Enabled()) {
				t.Errorf("approved: %v, FIPS 140-3 mode: %v, handshake: %v", approved, fips140.Enabled(), err)
			}
		})
	}
	for _, suite := range tls.CipherSuites() {
		if strings.Contains(suite.Name, "_ECDSA_") { // the certificate has an ECDSA key
			try(suite.Name, ApprovedCipherSuite(suite.ID), &tls.Config{MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{suite.ID}})
		}
	}
	for _, curve := range curves {
		try(curve.String(), ApprovedCurve(curve), &tls.Config{CurvePreferences: []tls.CurveID{curve}})
	}
}

func TestALPNSelectsTheProtocol(t *testing.T) {
	f, config := prepare(t)
	f.write(f.dir, "x")
	config.HTTP2 = true
	f.start(config)
	for _, c := range []struct {
		offers []string
		want   string
	}{{nil, "http/1.1"}, {[]string{"http/1.1"}, "http/1.1"}, {[]string{"h2"}, "h2"}, {[]string{"http/1.1", "h2"}, "h2"}} {
		if _, err := f.handshake(&tls.Config{NextProtos: c.offers}); err != nil {
			t.Fatal(err)
		}
		if got := <-f.adopted; got != c.want {
			t.Errorf("a client that offers %q uses %s, want %s", c.offers, got, c.want)
		}
	}
}

func TestASlowHandshakeDoesNotDelayOthers(t *testing.T) {
	f := begin(t, "x")
	whole := hello(t)
	for _, beginning := range []string{"", whole[:1], whole[:6], whole[:len(whole)-1], whole} {
		f.dial(beginning)
	}
	f.serves("x")
}

// dial opens a connection and sends the beginning of a handshake.
func (f *fixture) dial(beginning string) net.Conn {
	f.t.Helper()
	c, err := net.DialTimeout("tcp", f.addr, testTimeout)
	must(f.t, err)
	f.t.Cleanup(func() { _ = c.Close() })
	must(f.t, c.SetDeadline(time.Now().Add(testTimeout)))
	_, err = io.WriteString(c, beginning)
	must(f.t, err)
	return c
}

func hello(t *testing.T) string {
	t.Helper()
	near, far := net.Pipe()
	defer far.Close()
	go func() {
		// Handshake sends the ClientHello. It returns when the other end of the pipe is
		// closed.
		_ = tls.Client(near, &tls.Config{ServerName: "localhost"}).Handshake()
		_ = near.Close()
	}()
	b := make([]byte, 16<<10)
	n, err := far.Read(b)
	must(t, err)
	return string(b[:n])
}

func (f *fixture) until(what string, condition func() bool) {
	f.t.Helper()
	testkit.Until(f.t, what, condition)
}

// This test counts goroutines, so it must not run in parallel with others.
func TestAConnectionWithoutACompleteHelloStartsNoHandshake(t *testing.T) {
	whole := hello(t)
	for name, beginning := range map[string]string{"silent": "", "one byte": whole[:1], "the header": whole[:5], "all but a byte": whole[:len(whole)-1]} {
		t.Run(name, func(t *testing.T) {
			f := begin(t, "x")
			goroutines := runtime.NumGoroutine()
			for range 3 * 256 {
				f.dial(beginning)
			}
			f.serves("x")
			if s := f.front.Stats(); s.Handshaking != 0 || s.HandshakeFailures != 0 {
				t.Errorf("stats %+v", s)
			}
			if n := runtime.NumGoroutine(); n > goroutines+10 {
				t.Errorf("%d goroutines, %d before", n, goroutines)
			}
		})
	}
}

func TestAHelloInPiecesStartsAHandshake(t *testing.T) {
	f := begin(t, "x")
	c := f.dial("")
	for b := range strings.SplitSeq(hello(t), "") {
		_, err := io.WriteString(c, b)
		must(t, err)
	}
	f.until("the handshake to begin", func() bool { return f.front.Stats().Handshaking == 1 })
}

func TestBytesThatAreNoHelloFailImmediately(t *testing.T) {
	f := begin(t, "x")
	for _, text := range []string{"\x80\x2e\x01\x00\x02", "\x16\x03\x01\xff\xff", "x"} {
		c := f.dial(text)
		must(t, c.(*net.TCPConn).CloseWrite())
		if _, err := io.Copy(io.Discard, c); os.IsTimeout(err) {
			t.Errorf("%q: no end", text)
		}
	}
}

func TestAConnectionClosedWithoutAByteIsNoFailure(t *testing.T) {
	f := begin(t, "x")
	free := f.budget.Free()
	for range 10 {
		must(t, f.dial("").Close())
	}
	f.serves("x")
	f.until("the connections to end", func() bool { return f.budget.Free() == free })
	if s := f.front.Stats(); s.HandshakeFailures != 0 {
		t.Errorf("stats %+v", s)
	}
}

func TestAnUnfinishedHandshakeIsReclaimed(t *testing.T) {
	f := begin(t, "x")
	c := f.dial(hello(t))
	f.until("the handshake to begin", func() bool { return f.front.Stats().Handshaking == 1 })
	f.budget.Reserve(f.budget.Free())
	f.serves("x")
	if _, err := io.Copy(io.Discard, c); os.IsTimeout(err) {
		t.Error("the connection was not closed")
	}
}

func TestAConnectionWithAnIncompleteHelloIsReclaimed(t *testing.T) {
	f := begin(t, "x")
	free := f.budget.Free()
	c := f.dial(hello(t)[:6])
	f.until("the connection", func() bool { return f.budget.Free() == free-1 })
	f.budget.Reserve(f.budget.Free())
	f.serves("x")
	if _, err := c.Read(make([]byte, 1)); err == nil || os.IsTimeout(err) {
		t.Errorf("read %v; want the connection closed", err)
	}
}

func TestClientsNeedACertificateWithAConfiguredName(t *testing.T) {
	f, config := prepare(t)
	f.write(f.dir, "x")
	config.ClientCA = filepath.Join(t.TempDir(), "ca.crt")
	config.ClientSANs = []string{"Activator.knative", "spiffe://cluster/ns/a", "*.wild.example"}
	f.put(config.ClientCA, f.ca.PEM())
	f.start(config)
	f.change(nil)
	stranger := testcert.New(t)
	for _, c := range []struct {
		name  string
		certs []tls.Certificate
		ok    bool
	}{
		{"none", nil, false},
		{"a DNS name, in another case", []tls.Certificate{f.ca.Pair(testcert.Leaf{Names: []string{"other", "activator.KNATIVE"}})}, true},
		{"a URI", []tls.Certificate{f.ca.Pair(testcert.Leaf{URIs: []string{"spiffe://cluster/ns/a"}})}, true},
		{"a URI in another case", []tls.Certificate{f.ca.Pair(testcert.Leaf{URIs: []string{"spiffe://cluster/ns/A"}})}, false},
		{"another name", []tls.Certificate{f.ca.Pair(testcert.Leaf{Names: []string{"activator"}})}, false},
		{"a name that a wildcard of the list would mean", []tls.Certificate{f.ca.Pair(testcert.Leaf{Names: []string{"a.wild.example"}})}, false},
		{"the wildcard itself", []tls.Certificate{f.ca.Pair(testcert.Leaf{Names: []string{"*.wild.example"}})}, true},
		{"a wildcard that would mean a name of the list", []tls.Certificate{f.ca.Pair(testcert.Leaf{Names: []string{"*.knative"}})}, false},
		{"another authority", []tls.Certificate{stranger.Pair(testcert.Leaf{Names: []string{"activator.knative"}})}, false},
		{"expired", []tls.Certificate{f.ca.Pair(testcert.Leaf{Names: []string{"activator.knative"}, NotAfter: time.Now().Add(-time.Minute)})}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := f.front.Stats()
			_, err := f.handshake(&tls.Config{GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				if len(c.certs) == 0 {
					return &tls.Certificate{}, nil
				}
				return &c.certs[0], nil
			}})
			after := f.front.Stats()
			if accepted := after.Handshakes > before.Handshakes; accepted != c.ok || (err == nil) != c.ok {
				t.Errorf("accepted %v, %v", accepted, err)
			}
		})
	}
}

func TestAResumedSessionNeedsACurrentlyTrustedCA(t *testing.T) {
	f, config := prepare(t)
	f.write(f.dir, "x")
	config.ClientCA = filepath.Join(t.TempDir(), "ca.crt")
	f.put(config.ClientCA, f.ca.PEM())
	f.start(config)
	f.change(nil)
	client := &tls.Config{
		ClientSessionCache: tls.NewLRUClientSessionCache(0), ServerName: "x",
		Certificates: []tls.Certificate{f.ca.Pair(testcert.Leaf{})},
	}
	if _, err := f.handshake(client); err != nil {
		t.Fatal(err)
	}
	if cs, err := f.handshake(client); err != nil || !cs.DidResume {
		t.Fatalf("resumed %v, %v", cs.DidResume, err)
	}
	f.put(config.ClientCA, testcert.New(t).PEM())
	f.change(nil)
	if _, err := f.handshake(client); err == nil {
		t.Error("accepted after its CA was removed from the file")
	}
}

func TestAnInvalidConfigurationIsRejected(t *testing.T) {
	_, good := prepare(t)
	for name, change := range map[string]func(*Config){
		"no directory":       func(c *Config) { c.Dir = "" },
		"no order":           func(c *Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS13, tls.VersionTLS12 },
		"names without a CA": func(c *Config) { c.ClientSANs = []string{"a"} },
		"no server":          func(c *Config) { c.Serve = nil },
	} {
		c := good
		change(&c)
		if _, err := New(c); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	if _, err := New(good); err != nil {
		t.Error(err)
	}
}

func TestSuiteAndCurveNamesAreThoseOfGo(t *testing.T) {
	suites, err := CipherSuites([]string{"TLS_AES_128_GCM_SHA256", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"})
	if err != nil || !slices.Equal(suites, []uint16{tls.TLS_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256}) {
		t.Errorf("suites %v, %v", suites, err)
	}
	ids, err := Curves([]string{"X25519", "CurveP256", "X25519MLKEM768"})
	if err != nil || !slices.Equal(ids, []tls.CurveID{tls.X25519, tls.CurveP256, tls.X25519MLKEM768}) {
		t.Errorf("curves %v, %v", ids, err)
	}
	for _, name := range []string{"TLS_RSA_WITH_RC4_128_SHA", "x"} {
		if _, err := CipherSuites([]string{name}); err == nil {
			t.Errorf("suite %q is accepted", name)
		}
	}
	if _, err := Curves([]string{"P-224"}); err == nil {
		t.Error("P-224 is accepted")
	}
}

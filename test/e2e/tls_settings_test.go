package e2e

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestTLSVersionsCipherSuitesAndCurvesAreConfigurable(t *testing.T) {
	t.Parallel()
	g := startTLSGate(t, startContainer(t), "QUEUE_PROXY_TLS_MIN_VERSION=1.2", "QUEUE_PROXY_TLS_MAX_VERSION=1.2",
		"QUEUE_PROXY_TLS_CIPHER_SUITES=TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "QUEUE_PROXY_TLS_CURVE_PREFERENCES=P-384")
	c := dialTLS(t, g, nil)
	cs := c.tls.ConnectionState()
	if cs.Version != tls.VersionTLS12 || cs.CipherSuite != tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384 || cs.CurveID != tls.CurveP384 {
		t.Errorf("%s, %s, %s", tls.VersionName(cs.Version), tls.CipherSuiteName(cs.CipherSuite), cs.CurveID)
	}
	c.get("/", "K-Network-Probe: queue").is(200, "queue")
	config := g.config()
	config.MinVersion = tls.VersionTLS13
	if _, err := tryDialTLS(t, g, config); err == nil {
		t.Error("TLS 1.3 is served with 1.2 as the highest version")
	}
}

func TestContradictoryTLSSettingsAreRejected(t *testing.T) {
	t.Parallel()
	for _, invalid := range [][]string{
		{"QUEUE_PROXY_TLS_MAX_VERSION", "QUEUE_PROXY_TLS_MIN_VERSION=1.3", "QUEUE_PROXY_TLS_MAX_VERSION=1.2"},
		{"TLS_CLIENT_SANS", "TLS_CLIENT_SANS=a.example"},
		{"TLS_ONLY", "TLS_ONLY=true", "QUEUE_SERVING_TLS_PORT=0"},
		{"UPSTREAM_TLS", "UPSTREAM_TLS=true"},
		{"UPSTREAM_TLS", "UPSTREAM_TLS=perhaps"},
	} {
		code, _, stderr := runQueue(t, append(baseEnv(t), invalid[1:]...), "--check")
		if code != 2 || !strings.Contains(stderr, invalid[0]) {
			t.Errorf("%q: code %d, stderr %q", invalid[1:], code, stderr)
		}
	}
}

func TestInFIPSModeSuitesAndCurvesThatAreNotApprovedStopTheStart(t *testing.T) {
	t.Parallel()
	const mode = "GODEBUG=fips140=on"
	for _, c := range []struct{ setting, wantError string }{
		{"QUEUE_PROXY_TLS_CIPHER_SUITES=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"},
		{"QUEUE_PROXY_TLS_CIPHER_SUITES=TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA", "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA"},
		{"QUEUE_PROXY_TLS_CURVE_PREFERENCES=P-256,X25519", "X25519"},
	} {
		code, _, stderr := runQueue(t, append(baseEnv(t), mode, c.setting), "--check")
		name, _, _ := strings.Cut(c.setting, "=")
		if code != 2 || !strings.Contains(stderr, name) || !strings.Contains(stderr, "not approved: "+c.wantError) {
			t.Errorf("%s: code %d, stderr %q", c.setting, code, stderr)
		}
	}
	code, _, stderr := runQueue(t, append(baseEnv(t), mode, "QUEUE_PROXY_TLS_CURVE_PREFERENCES=X25519MLKEM768,P-256",
		"QUEUE_PROXY_TLS_CIPHER_SUITES=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"), "--check")
	if code != 0 {
		t.Errorf("approved values: code %d, stderr %q", code, stderr)
	}
	if code, stdout, _ := runQueue(t, append(baseEnv(t), mode), "--version"); code != 0 || !strings.Contains(stdout, "FIPS 140-3 m") {
		t.Errorf("--version: code %d, %q", code, stdout)
	}
}

func TestTLSClientsNeedACertificateWithAListedName(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t) // signs the clients' certificates
	file := filepath.Join(shortTempDir(t), "ca.crt")
	must(t, os.WriteFile(file, ca.pem(), 0o600))
	g := startTLSGate(t, startContainer(t), "TLS_CLIENT_CA="+file, "TLS_CLIENT_SANS=spiffe://cluster/ns/knative, other")
	for uri, ok := range map[string]bool{"": false, "spiffe://cluster/ns/knative": true, "spiffe://cluster/ns/knative/x": false} {
		config := g.config()
		if uri != "" {
			config.Certificates = []tls.Certificate{ca.pair(uri)}
		}
		c, err := tryDialTLS(t, g, config)
		if err == nil {
			_, err = io.WriteString(c.tls, request("GET", "/", "K-Network-Probe: queue"))
		}
		if err == nil {
			_, err = c.r.Peek(1) // in TLS 1.3 the client learns of the rejection after the handshake
		}
		if (err == nil) != ok {
			t.Errorf("%q: %v", uri, err)
		}
		if ok {
			c.response("GET").is(200, "queue")
		}
	}
}

func TestWithTLSOnlyPlaintextTrafficIsRejectedAndProbesGetResponses(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startTLSGate(t, k, "TLS_ONLY=true")
	c := dial(t, g.gate)
	for range 2 { // twice, because the 403 must not close the connection
		a := c.get("/")
		a.plainError(403, "only TLS is served here\n")
		a.field("K-Gate-Outcome", "plaintext-refused")
		c.get("/", "User-Agent: kube-probe/1", "K-Network-Probe: queue").is(200, "queue")
		c.get("/", "K-Network-Probe: probe", "K-Network-Hash: h").is(200, "")
	}
	c.send("POST / HTTP/1.1\r\nHost: gate.test\r\nContent-Length: 10\r\n\r\nhalf")
	c.response("POST").localError(403)
	k.unseen("plain traffic")
	s := dialTLS(t, g, nil)
	s.send(request("GET", "/"))
	p := k.accept()
	p.head()
	p.send(okBody)
	s.response("GET").is(200, "ok")
}

func TestATakenTLSPortGivesAClearErrorAndCode1(t *testing.T) {
	t.Parallel()
	g := startTLSGate(t, startContainer(t))
	env := append(baseEnv(t), fmt.Sprintf("QUEUE_SERVING_PORT=%d", freePort(t)), "DRAIN_SOCKET="+shortTempDir(t)+"/d.sock",
		"CERT_DIR="+g.dir, "QUEUE_SERVING_TLS_PORT="+g.secure[strings.LastIndexByte(g.secure, ':')+1:])
	code, _, stderr := runQueue(t, env)
	if code != 1 || !strings.Contains(stderr, "QUEUE_SERVING_TLS_PORT") || !strings.Contains(stderr, "in use") {
		t.Errorf("code %d, stderr %q", code, stderr)
	}
}

// startTLSContainer starts a container with TLS and a certificate for localhost.
func startTLSContainer(t *testing.T, ca *authority, dials func()) int {
	t.Helper()
	config := &tls.Config{Certificates: []tls.Certificate{ca.pair()}, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		dials()
		return nil, nil
	}}
	return startServer(t, config, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			<-r.Context().Done()
			return
		}
		body, err := io.ReadAll(r.Body) // read the body first, because net/http discards it when the response begins
		if err == nil {
			_, _ = w.Write(body)
		}
	})
}

func TestTheGateUsesTLSToTheContainer(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	file := filepath.Join(shortTempDir(t), "ca.crt")
	must(t, os.WriteFile(file, ca.pem(), 0o600))
	dials := make(chan struct{}, 100)
	port := fmt.Sprintf("USER_PORT=%d", startTLSContainer(t, ca, func() { dials <- struct{}{} }))
	g := startGate(t, startSilentContainer(t), port, "UPSTREAM_TLS=true", "UPSTREAM_TLS_CA="+file)
	c := dial(t, g)
	for range 3 {
		for _, size := range []int{0, 5, 60 << 10} {
			body := strings.Repeat("0123456789", size/10+1)[:size]
			sent := make(chan error, 1)
			go func() {
				_, err := io.WriteString(c.w, fmt.Sprintf("POST / HTTP/1.1\r\nHost: gate.test\r\nContent-Length: %d\r\n\r\n%s", size, body))
				sent <- err
			}()
			c.response("POST").is(200, body)
			must(t, <-sent)
		}
	}
	body := strings.Repeat("0123456789", 3<<20/10)
	sent := make(chan error, 1)
	go func() {
		_, err := io.WriteString(c.w, fmt.Sprintf("POST / HTTP/1.1\r\nHost: gate.test\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
		sent <- err
	}()
	c.response("POST").is(200, body)
	must(t, <-sent)
	// The gate sends a POST only on a connection without unread bytes. A session ticket
	// of TLS may arrive late and be unread at that time. So some of the ten requests may
	// need a new connection.
	if n := len(dials); n > 4 {
		t.Errorf("%d handshakes with the container for ten requests one after the other", n)
	}
	disconnected := dial(t, g)
	disconnected.send(request("GET", "/slow"))
	disconnected.close()
	c.get("/").is(200, "")
}

func TestAContainerWithAnUntrustedCertificateGives502(t *testing.T) {
	t.Parallel()
	ca, other := newAuthority(t), newAuthority(t)
	dir := shortTempDir(t)
	certificate, otherCertificate := filepath.Join(dir, "mine.crt"), filepath.Join(dir, "others.crt")
	must(t, os.WriteFile(certificate, ca.pem(), 0o600))
	must(t, os.WriteFile(otherCertificate, other.pem(), 0o600))
	port := fmt.Sprintf("USER_PORT=%d", startTLSContainer(t, ca, func() {}))
	plain := startContainer(t)
	for _, c := range []struct {
		settings []string
		status   int
	}{
		{[]string{port, "UPSTREAM_TLS_CA=" + otherCertificate}, 502},
		{[]string{port, "UPSTREAM_TLS_CA=" + certificate, "UPSTREAM_TLS_SERVER_NAME=other.example"}, 502},
		{[]string{port, "UPSTREAM_TLS_CA=" + otherCertificate, "UPSTREAM_TLS_INSECURE=true"}, 200},
		{[]string{port, "ROOT_CA=" + string(ca.pem())}, 200},
		{[]string{port, "ROOT_CA=no certificate at all"}, 502},
	} {
		g := startGate(t, plain, append(c.settings, "UPSTREAM_TLS=true")...)
		a := dial(t, g).get("/")
		if a.status != c.status {
			t.Errorf("%q: status %d", c.settings, a.status)
		}
		if c.status == 502 {
			a.plainError(502, "TLS to upstream failed\n")
			a.field("K-Gate-Outcome", "upstream-tls-failed")
			eventually(t, "the reason is logged", func() bool {
				return strings.Contains(g.Stderr.String(), "the TLS handshake with the container has failed")
			})
		}
	}
	g := startGate(t, plain, "UPSTREAM_TLS=true", "UPSTREAM_TLS_INSECURE=true")
	c := dial(t, g)
	c.send(request("GET", "/"))
	p := plain.accept()
	p.send("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
	c.response("GET").plainError(502, "TLS to upstream failed\n")
	// The container never sends a byte.
	g = startGate(t, plain, "UPSTREAM_TLS=true", "UPSTREAM_TLS_INSECURE=true", "REVISION_TIMEOUT_SECONDS=1")
	start := time.Now()
	c = dial(t, g)
	c.send(request("GET", "/"))
	c.response("GET").is(504, "request timeout")
	checkElapsed(t, start, time.Second)
}

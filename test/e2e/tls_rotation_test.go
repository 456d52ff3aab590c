package e2e

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
)

// rotations returns the number of rotations in TestRotationsUnderLoadFailNoRequest.
func rotations(t *testing.T) int {
	t.Helper()
	text := os.Getenv("QUEUEGATE_ROTATIONS")
	if text == "" {
		return 50
	}
	n, err := strconv.Atoi(text)
	must(t, err)
	return n
}

// startServer serves h on a port for USER_PORT. Without config it does not use TLS.
func startServer(t *testing.T, config *tls.Config, h http.HandlerFunc) (port int) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	s := &http.Server{Handler: h, TLSConfig: config, TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){}}
	port = ln.Addr().(*net.TCPAddr).Port
	if config != nil {
		ln = tls.NewListener(ln, config)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	t.Cleanup(func() {
		_ = s.Close()
		<-served
	})
	return port
}

// serial returns the serial number of the certificate on new connections.
func (g *tlsGate) serial() int64 {
	g.t.Helper()
	c := dialTLS(g.t, g, nil)
	defer c.close()
	return c.tls.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
}

// mount replaces the certificate and key in the volume layout of Kubernetes.
func (g *tlsGate) mount(generation int) (serial int64) {
	g.ca.t.Helper()
	g.mountFiles(generation, func(dir string) { serial = g.ca.put(dir) }, "tls.crt", "tls.key")
	return serial
}

// mountFiles replaces the files in g.dir like Kubernetes updates a volume. The function
// write creates the files in a new directory. Then the symbolic link "..data" changes to
// this directory, and the previous directory is removed. The first call must have
// generation 1, and each further call the next number. The parameter files lists the
// names of the files.
func (g *tlsGate) mountFiles(generation int, write func(dir string), files ...string) {
	g.ca.t.Helper()
	name := fmt.Sprintf("..%d", generation)
	must(g.ca.t, os.Mkdir(filepath.Join(g.dir, name), 0o755))
	write(filepath.Join(g.dir, name))
	must(g.ca.t, os.Symlink(name, filepath.Join(g.dir, "..data_tmp")))
	must(g.ca.t, os.Rename(filepath.Join(g.dir, "..data_tmp"), filepath.Join(g.dir, "..data")))
	if generation == 1 {
		for _, file := range files {
			must(g.ca.t, os.Symlink(filepath.Join("..data", file), filepath.Join(g.dir, file)))
		}
	} else {
		must(g.ca.t, os.RemoveAll(filepath.Join(g.dir, fmt.Sprintf("..%d", generation-1))))
	}
}

// The volume of a pod certificate is projected: it has the credential bundle and the CA
// certificates of a ClusterTrustBundle. Clients have SPIFFE URIs.
func TestAPodCertificateServesAndIsRotatedWithItsTrustBundle(t *testing.T) {
	t.Parallel()
	const caller = "spiffe://cluster.local/ns/web/sa/caller"
	g := &tlsGate{ca: newAuthority(t), dir: shortTempDir(t)}
	clients := newAuthority(t)
	mount := func(generation int) (serial int64) {
		g.mountFiles(generation, func(dir string) {
			var certificate, key []byte
			certificate, key, serial = g.ca.issue("spiffe://cluster.local/ns/web/sa/web")
			must(t, os.WriteFile(filepath.Join(dir, "credentialbundle.pem"), slices.Concat(key, certificate, g.ca.pem()), 0o600))
			must(t, os.WriteFile(filepath.Join(dir, "clients.pem"), clients.pem(), 0o600))
		}, "credentialbundle.pem", "clients.pem")
		return serial
	}
	admitted := func(ca *authority, uri string) bool {
		config := g.config()
		config.Certificates = []tls.Certificate{ca.pair(uri)}
		c, err := tryDialTLS(t, g, config)
		defer c.close()
		if err == nil {
			_, err = io.WriteString(c.tls, request("GET", "/", "K-Network-Probe: queue"))
		}
		if err == nil {
			_, err = c.r.Peek(1) // in TLS 1.3 the client learns of the rejection after the handshake
		}
		return err == nil
	}
	mount(1)
	g.start(t, startContainer(t), "TLS_CLIENT_CA="+filepath.Join(g.dir, "clients.pem"), "TLS_CLIENT_SANS="+caller)
	if !admitted(clients, caller) || admitted(clients, "spiffe://cluster.local/ns/web/sa/other") || admitted(newAuthority(t), caller) {
		t.Error("want clients with the listed SPIFFE URI and the trusted CA, and no others")
	}
	before := clients
	clients = newAuthority(t)
	want := mount(2)
	g.logged("a new TLS certificate is in use")
	config := g.config()
	config.Certificates = []tls.Certificate{clients.pair(caller)}
	// If the gate read the files during the change, the new client CA is in use before the
	// new certificate.
	eventually(t, "the new certificate is served", func() bool {
		c := dialTLS(t, g, config)
		defer c.close()
		return c.tls.ConnectionState().PeerCertificates[0].SerialNumber.Int64() == want
	})
	if !admitted(clients, caller) || admitted(before, caller) {
		t.Error("want clients of the new CA, and none of the previous one")
	}
}

func TestRotationsUnderLoadFailNoRequest(t *testing.T) {
	t.Parallel()
	port := startServer(t, nil, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "hello") })
	g := &tlsGate{ca: newAuthority(t), dir: shortTempDir(t)}
	g.mount(1)
	g.start(t, startSilentContainer(t), fmt.Sprintf("USER_PORT=%d", port))

	var requests, closed atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var load sync.WaitGroup
	failed := make(chan error, 8)
	const numReused, numNew = 4, 2
	for i := range numReused + numNew {
		transport := &http.Transport{TLSClientConfig: g.config(), DisableKeepAlives: i >= numReused}
		if i < numReused {
			transport.DialTLSContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
				c, err := (&tls.Dialer{Config: g.config()}).DialContext(ctx, network, addr)
				if err != nil {
					return nil, err
				}
				return &countedClose{c, &closed}, nil
			}
		}
		defer transport.CloseIdleConnections()
		client := &http.Client{Transport: transport, Timeout: testTimeout}
		load.Go(func() {
			for ctx.Err() == nil {
				if err := ask(client, "https://"+g.secure+"/"); err != nil {
					failed <- err
					return
				}
				requests.Add(1)
			}
		})
	}
	n := rotations(t)
	for i := range n {
		want := g.mount(i + 2)
		eventually(t, "the new certificate is served", func() bool { return g.serial() == want })
	}
	stop()
	load.Wait()
	select {
	case err := <-failed:
		t.Errorf("a request failed: %v", err)
	default:
	}
	if n := closed.Load(); n != 0 {
		t.Errorf("the gate closed %d connections of clients that keep theirs", n)
	}
	t.Logf("%d rotations, %d requests, none failed", n, requests.Load())
}

// countedClose is a connection that adds 1 to a counter if the gate closes it. A close by
// the client does not count, because net/http sometimes closes a usable connection: it
// does not wait longer than 50 ms after a response for its own goroutine that writes the
// request.
type countedClose struct {
	net.Conn
	byGate *atomic.Int64
}

func (c *countedClose) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil && !errors.Is(err, net.ErrClosed) {
		c.byGate.Add(1)
	}
	return n, err
}

// ask sends one request and reads the response.
func ask(c *http.Client, url string) error {
	resp, err := c.Get(url)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && (resp.StatusCode != 200 || string(body) != "hello") {
		err = fmt.Errorf("%d %q", resp.StatusCode, body)
	}
	if err == nil && resp.Close && !c.Transport.(*http.Transport).DisableKeepAlives {
		err = errors.New("response with Connection: close")
	}
	return err
}

// logged waits until the gate's log has the text.
func (g *tlsGate) logged(text string) {
	g.t.Helper()
	eventually(g.t, fmt.Sprintf("%q in the log", text), func() bool { return strings.Contains(g.Stderr.String(), text) })
}

func TestTheTLSPortOpensWhenTheCertificateAppears(t *testing.T) {
	t.Parallel()
	g := &tlsGate{ca: newAuthority(t), dir: filepath.Join(shortTempDir(t), "later")}
	g.start(t, startContainer(t))
	g.logged("no TLS certificate")
	if c, err := net.Dial("tcp", g.secure); err == nil {
		_ = c.Close()
		t.Fatal("the port is open without a certificate")
	}
	must(t, os.Mkdir(g.dir, 0o755))
	want := g.ca.put(g.dir)
	eventually(t, "the port opens", func() bool {
		c, err := net.Dial("tcp", g.secure)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
	if got := g.serial(); got != want {
		t.Errorf("serial number %d, want %d", got, want)
	}
}

func TestAnInvalidCertificateIsLoggedAndTheOldOneIsServed(t *testing.T) {
	t.Parallel()
	g := startTLSGate(t, startContainer(t))
	before := g.serial()
	must(t, os.WriteFile(filepath.Join(g.dir, "tls.crt"), []byte("nonsense"), 0o600))
	g.logged("the old one stays")
	if got := g.serial(); got != before {
		t.Errorf("serial number %d, want %d", got, before)
	}
	want := g.ca.put(g.dir)
	g.logged("a new TLS certificate is in use")
	if got := g.serial(); got != want {
		t.Errorf("serial number %d, want %d", got, want)
	}
}

func TestSIGHUPReloadsTheCertificate(t *testing.T) {
	t.Parallel()
	g := startTLSGate(t, startContainer(t))
	g.signal(syscall.SIGHUP)
	g.logged("the TLS certificate has not changed")
	dialTLS(t, g, nil).get("/", "K-Network-Probe: queue").is(200, "queue")
}

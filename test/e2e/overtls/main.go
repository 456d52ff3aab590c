// Command overtls runs the gate so that all its traffic is over TLS while its
// clients speak plain text: it takes the serving port itself and carries each
// connection to the gate's TLS port. With QUEUEGATE_BINARY set to it the tests
// of this directory judge the TLS port by the rules of the plain one. The real
// binary, or a link to it, lies beside it and is called under. An end of the
// client's becomes a close_notify without a FIN, a reset a reset, and the other
// way round.
package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

func main() {
	code, err := run()
	if err != nil {
		fmt.Fprintln(os.Stderr, "overtls:", err)
		code = 1
	}
	os.Exit(code)
}

func run() (int, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	under := filepath.Join(filepath.Dir(self), "under")
	if len(os.Args) > 1 { // a command, not a gate
		return 0, syscall.Exec(under, append([]string{under}, os.Args[1:]...), os.Environ())
	}
	dir, err := os.MkdirTemp("", "overtls")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	if err := makeCertificate(dir); err != nil {
		return 0, err
	}
	var serving, secure string
	var env []string
	for _, e := range os.Environ() {
		if v, ok := strings.CutPrefix(e, "QUEUE_SERVING_PORT="); ok {
			serving = v
		} else if v, ok := strings.CutPrefix(e, "QUEUE_SERVING_TLS_PORT="); ok {
			secure = v
			env = append(env, e)
		} else if !strings.HasPrefix(e, "CERT_DIR=") {
			env = append(env, e)
		}
	}
	spare, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	plain := spare.Addr().(*net.TCPAddr).Port
	_ = spare.Close()
	gate := exec.Command(under)
	gate.Env = append(env, "CERT_DIR="+dir, fmt.Sprintf("QUEUE_SERVING_PORT=%d", plain))
	gate.Stdout, gate.Stderr = os.Stdout, os.Stderr
	gate.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := gate.Start(); err != nil {
		return 0, err
	}
	exited := make(chan struct{})
	go func() {
		_ = gate.Wait() // the exit code is read from the state
		close(exited)
	}()
	go passSignals(gate.Process)
	awaitPort(fmt.Sprintf("127.0.0.1:%d", plain), exited) // it opens last
	ln, err := net.Listen("tcp", ":"+serving)
	if err != nil {
		return 0, errors.Join(err, gate.Process.Kill())
	}
	go accept(ln, "127.0.0.1:"+secure)
	<-exited
	return gate.ProcessState.ExitCode(), nil
}

func makeCertificate(dir string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return err
	}
	secret, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(dir, "tls.crt"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600),
		os.WriteFile(filepath.Join(dir, "tls.key"), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret}), 0o600))
}

func passSignals(p *os.Process) {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	for s := range signals {
		_ = p.Signal(s) // it may have ended
	}
}

func awaitPort(addr string, exited <-chan struct{}) {
	for {
		if c, err := net.Dial("tcp", addr); err == nil {
			_ = c.Close()
			return
		}
		select {
		case <-exited:
			return
		case <-time.After(2 * time.Millisecond):
		}
	}
}

func accept(ln net.Listener, target string) {
	for {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		go carry(c.(*net.TCPConn), target)
	}
}

// carry moves bytes, ends and resets between a plain client and the gate.
func carry(client *net.TCPConn, target string) {
	defer client.Close()
	wire, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer wire.Close()
	gate := tls.Client(wire, &tls.Config{InsecureSkipVerify: true})
	if gate.Handshake() != nil {
		return
	}
	up := make(chan struct{})
	go func() {
		defer close(up)
		if _, err := io.Copy(gate, reader{client}); errors.Is(err, syscall.ECONNRESET) {
			_ = wire.(*net.TCPConn).SetLinger(0)
			_ = wire.Close()
			_ = client.Close()
			return
		}
		_ = gate.CloseWrite() // the gate may be gone
	}()
	if _, err := io.Copy(writer{client}, gate); errors.Is(err, syscall.ECONNRESET) {
		_ = client.SetLinger(0)
		return
	}
	_ = client.CloseWrite()
	<-up
}

// reader and writer keep io.Copy from splicing, which would hide resets.
type (
	reader struct{ io.Reader }
	writer struct{ io.Writer }
)

// Package infront is for programs that run in front of the gate: such a program starts
// the gate, listens on the gate's port, and forwards the connections in another protocol.
// So the tests of the plain port also test that protocol. The program's directory must
// contain the gate's binary, or a link to it, named "under".
package infront

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/queuegate/queuegate/test/internal/launch"
)

// Gate has the addresses of the gate.
type Gate struct{ Plain, TLS string }

// Main starts the gate, calls carry for each client connection, and exits with the gate's
// exit code. It executes commands of the gate directly. defaults apply to variables that
// the test has not set.
func Main(name string, carry func(client *net.TCPConn, gate Gate), defaults ...string) {
	code, err := run(carry, defaults)
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		code = 1
	}
	os.Exit(code)
}

// lastWords limits the time to deliver the last bytes after the gate has ended.
const lastWords = 2 * time.Second

func run(carry func(*net.TCPConn, Gate), defaults []string) (int, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	under := filepath.Join(filepath.Dir(self), "under")
	if len(os.Args) > 1 { // a command of the gate
		return 0, syscall.Exec(under, append([]string{under}, os.Args[1:]...), os.Environ())
	}
	dir, err := os.MkdirTemp("", "infront")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	if err := makeCertificate(dir); err != nil {
		return 0, err
	}
	var serving, secure string
	// The values of the test follow the defaults, and override them: of several values of
	// a variable, the last one is used.
	env := append([]string(nil), defaults...)
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
	// No other test process uses the ports that launch.Port returns.
	plain := launch.Port()
	if plain == 0 {
		return 0, errors.New("no free port")
	}
	gate := exec.Command(under)
	gate.Env = append(env, "CERT_DIR="+dir, fmt.Sprintf("QUEUE_SERVING_PORT=%d", plain))
	gate.Stdout, gate.Stderr = os.Stdout, os.Stderr
	gate.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := gate.Start(); err != nil {
		return 0, err
	}
	exited := make(chan struct{})
	go func() {
		_ = gate.Wait() // the error is not needed, because run returns the exit code
		close(exited)
	}()
	go passSignals(gate.Process)
	at := Gate{Plain: fmt.Sprintf("127.0.0.1:%d", plain), TLS: "127.0.0.1:" + secure}
	awaitPort(at.Plain, exited) // the gate opens the plain port last
	ln, err := net.Listen("tcp", ":"+serving)
	if err != nil {
		return 0, errors.Join(err, gate.Process.Kill())
	}
	var carried sync.WaitGroup
	go accept(ln, &carried, func(c *net.TCPConn) { carry(c, at) })
	<-exited
	_ = ln.Close()
	done := make(chan struct{})
	go func() { carried.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(lastWords):
	}
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
		_ = p.Signal(s) // the gate may have ended
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

func accept(ln net.Listener, carried *sync.WaitGroup, carry func(*net.TCPConn)) {
	for {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		carried.Go(func() { carry(c.(*net.TCPConn)) })
	}
}

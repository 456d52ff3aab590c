package socket

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const testTimeout = 2 * time.Minute

// await waits for events of a descriptor.
func await(t *testing.T, p *Poller, fd int) uint32 {
	t.Helper()
	for deadline := time.Now().Add(testTimeout); time.Now().Before(deadline); {
		for _, e := range p.Wait(time.Second) {
			if int(e.Fd) == fd {
				return e.Events
			}
		}
	}
	t.Fatalf("no event for descriptor %d", fd)
	return 0
}

func newPoller(t *testing.T) *Poller {
	t.Helper()
	p, err := NewPoller()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func TestABoundPortRefusesConnectionsUntilListen(t *testing.T) {
	p := newPoller(t)
	listener, port, err := Bind(0)
	if err != nil {
		t.Fatal(err)
	}
	defer Close(listener)
	dial := func() error {
		fd, err := Dial(port)
		if err != nil {
			return err
		}
		defer Close(fd)
		if err := p.Add(fd, Writable); err != nil {
			t.Fatal(err)
		}
		await(t, p, fd)
		return Connected(fd)
	}
	if err := dial(); err == nil {
		t.Fatal("connected before Listen")
	}
	if err := Listen(listener); err != nil {
		t.Fatal(err)
	}
	if err := dial(); err != nil {
		t.Fatalf("connecting after Listen: %v", err)
	}
}

func TestReadingASocketReturnsZeroBytesAtEOF(t *testing.T) {
	p := newPoller(t)
	listener, port, err := Bind(0)
	if err != nil {
		t.Fatal(err)
	}
	defer Close(listener)
	if err := Listen(listener); err != nil {
		t.Fatal(err)
	}
	if err := p.Add(listener, Readable); err != nil {
		t.Fatal(err)
	}
	client, err := Dial(port)
	if err != nil {
		t.Fatal(err)
	}
	await(t, p, listener)
	server, err := Accept(listener)
	if err != nil {
		t.Fatal(err)
	}
	defer Close(server)
	if err := p.Add(server, Readable); err != nil {
		t.Fatal(err)
	}
	if n, errno := Read(server, make([]byte, 8)); errno != unix.EAGAIN {
		t.Fatalf("reading without data: %d, %v", n, errno)
	}
	if n, errno := Write(client, []byte("keep and drop")); n != 13 || errno != 0 {
		t.Fatalf("writing: %d, %v", n, errno)
	}
	await(t, p, server)
	buffer := make([]byte, 5)
	if n, errno := Read(server, buffer); n != 5 || errno != 0 || string(buffer) != "keep " {
		t.Fatalf("reading: %d %q, %v", n, buffer, errno)
	}
	if n, errno := Discard(server, 100); n != 8 || errno != 0 {
		t.Fatalf("discarding: %d, %v", n, errno)
	}
	Close(client)
	if events := await(t, p, server); events&unix.EPOLLRDHUP == 0 {
		t.Fatalf("events at EOF are %#x", events)
	}
	if n, errno := Read(server, buffer); n != 0 || errno != 0 {
		t.Fatalf("reading EOF: %d, %v", n, errno)
	}
}

func TestAddingAReadyDescriptorInterruptsTheWaitOfThePoller(t *testing.T) {
	p := newPoller(t)
	listener, port, err := Bind(0)
	if err != nil {
		t.Fatal(err)
	}
	defer Close(listener)
	if err := Listen(listener); err != nil {
		t.Fatal(err)
	}
	client, err := Dial(port)
	if err != nil {
		t.Fatal(err)
	}
	defer Close(client)
	added := make(chan error)
	go func() { added <- p.Add(listener, Readable) }()
	await(t, p, listener)
	if err := <-added; err != nil {
		t.Fatal(err)
	}
}

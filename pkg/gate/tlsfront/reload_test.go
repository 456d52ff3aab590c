package tlsfront

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/queuegate/queuegate/internal/testkit"
	"github.com/queuegate/queuegate/pkg/gate/internal/testcert"
)

func TestAnOverwrittenCertificateIsServed(t *testing.T) {
	f := begin(t, "first")
	f.serves("first")
	f.write(f.dir, "second")
	f.change(nil)
	f.serves("second")
	if s := f.front.Stats(); s.Reloads != 1 || s.ReloadFailures != 0 || s.NotAfter.IsZero() || s.Handshakes != 2 {
		t.Errorf("stats %+v", s)
	}
}

// mount writes the files in the way in which Kubernetes mounts a volume. The files are in
// a new directory, which ..data links to. Each visible file name is a link to the same
// name in ..data. So a second call replaces all files at once by replacing ..data.
func (f *fixture) mount(generation, name string) {
	f.t.Helper()
	dir := filepath.Join(f.dir, generation)
	must(f.t, os.Mkdir(dir, 0o755))
	f.write(dir, name)
	must(f.t, os.Symlink(generation, filepath.Join(f.dir, "..data_tmp")))
	must(f.t, os.Rename(filepath.Join(f.dir, "..data_tmp"), filepath.Join(f.dir, "..data")))
	for _, file := range []string{certificateFile, keyFile} {
		// This fails if an earlier call has made the link, which is still correct.
		_ = os.Symlink(filepath.Join("..data", file), filepath.Join(f.dir, file))
	}
}

func must(t *testing.T, err error) { t.Helper(); testkit.Must(t, err) }

func TestACertificateReplacedThroughALinkIsServed(t *testing.T) {
	f, c := prepare(t)
	f.mount("..1", "first")
	f.start(c)
	f.change(nil)
	f.serves("first")
	f.mount("..2", "second")
	must(t, os.RemoveAll(filepath.Join(f.dir, "..1")))
	f.change(nil)
	f.serves("second")
	f.mount("..3", "third")
	f.change(nil)
	f.serves("third")
	f.unchanged()
}

func TestACertificateIsReloadedWhenItsLinkTargetIsOverwritten(t *testing.T) {
	f, c := prepare(t)
	elsewhere := t.TempDir()
	f.write(elsewhere, "first")
	for _, file := range []string{certificateFile, keyFile} {
		must(t, os.Symlink(filepath.Join(elsewhere, file), filepath.Join(f.dir, file)))
	}
	f.start(c)
	f.change(nil)
	f.write(elsewhere, "second")
	f.change(nil)
	f.serves("second")
}

func TestABrieflyMismatchedCertificateAndKeyAreNoReloadFailure(t *testing.T) {
	for {
		f := begin(t, "first")
		certificate, key := f.ca.Issue(testcert.Leaf{Names: []string{"second"}})
		began := time.Now()
		f.put(filepath.Join(f.dir, certificateFile), certificate)
		for range 5 {
			f.serves("first")
		}
		changes := len(f.changes)
		f.put(filepath.Join(f.dir, keyFile), key)
		if time.Since(began) > settleTime/2 {
			continue // on a busy machine the files did not match for too long: try again
		}
		if changes > 0 {
			f.unchanged()
		}
		f.change(nil)
		f.serves("second")
		if s := f.front.Stats(); s.ReloadFailures != 0 {
			t.Errorf("%d failures", s.ReloadFailures)
		}
		return
	}
}

func TestABrokenCertificateIsReportedOnceAndThePreviousOneServed(t *testing.T) {
	t.Parallel()
	f := begin(t, "first")
	until := f.front.Stats().NotAfter
	for i, broken := range []string{"nonsense", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"} {
		f.put(filepath.Join(f.dir, certificateFile), []byte(broken))
		if c := f.change(errAny); !c.Serving || !c.NotAfter.Equal(until) {
			t.Errorf("reported %+v", c)
		}
		f.serves("first")
		// The same error is not reported again when the file is written with the same
		// content.
		f.put(filepath.Join(f.dir, certificateFile), []byte(broken))
		f.serves("first")
		f.unchanged()
		if s := f.front.Stats(); int(s.ReloadFailures) != i+1 || s.Reloads != 0 || !s.NotAfter.Equal(until) {
			t.Errorf("stats %+v after %q", s, broken)
		}
	}
	f.write(f.dir, "second")
	f.change(nil)
	f.serves("second")
}

func TestARemovedCertificateStaysInUse(t *testing.T) {
	t.Parallel()
	f := begin(t, "first")
	must(t, os.RemoveAll(f.dir))
	f.change(ErrNone)
	f.serves("first")
	must(t, os.Mkdir(f.dir, 0o755))
	f.write(f.dir, "second")
	f.change(nil)
	f.serves("second")
}

func TestThePortOpensWhenACertificateAppears(t *testing.T) {
	f, c := prepare(t)
	c.Dir = filepath.Join(f.dir, "not", "there")
	f.start(c)
	if got := f.change(ErrNone); got.Serving {
		t.Errorf("reported %+v", got)
	}
	select {
	case <-f.opened:
		t.Fatal("the port is open without a certificate")
	default:
	}
	must(t, os.MkdirAll(c.Dir, 0o755))
	f.write(c.Dir, "late")
	f.change(nil)
	select {
	case <-f.opened:
	case <-time.After(testTimeout):
		t.Fatal("the port stays closed")
	}
	f.serves("late")
	if s := f.front.Stats(); s.Reloads != 0 || s.ReloadFailures != 0 {
		t.Errorf("stats %+v", s)
	}
}

func TestReloadReportsEvenAnUnchangedCertificate(t *testing.T) {
	f := begin(t, "first")
	f.front.Reload()
	f.change(nil)
	if s := f.front.Stats(); s.Reloads != 0 {
		t.Errorf("%d reloads", s.Reloads)
	}
	f.serves("first")
}

func TestAnExpiredCertificateDoesNotReplaceAValidOne(t *testing.T) {
	t.Parallel()
	f := begin(t, "first")
	certificate, key := f.ca.Issue(testcert.Leaf{Names: []string{"expired"}, NotAfter: time.Now().Add(-time.Minute)})
	f.put(filepath.Join(f.dir, keyFile), key)
	f.put(filepath.Join(f.dir, certificateFile), certificate)
	f.change(errAny)
	f.serves("first")
}

func TestAnExpiredCertificateIsServedUntilAValidOneReplacesIt(t *testing.T) {
	f, c := prepare(t)
	certificate, key := f.ca.Issue(testcert.Leaf{Names: []string{"expired"}, NotAfter: time.Now().Add(-time.Minute)})
	f.put(filepath.Join(f.dir, keyFile), key)
	f.put(filepath.Join(f.dir, certificateFile), certificate)
	f.start(c)
	f.change(nil)
	f.serves("expired")
	f.write(f.dir, "valid")
	f.change(nil)
	f.serves("valid")
}

func TestSessionTicketsSurviveAChangeOfTheCertificate(t *testing.T) {
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		f := begin(t, "first")
		client := &tls.Config{ClientSessionCache: tls.NewLRUClientSessionCache(0), ServerName: "x", MaxVersion: version}
		if cs, err := f.handshake(client); err != nil || cs.DidResume {
			t.Fatalf("resumed %v, %v", cs.DidResume, err)
		}
		f.write(f.dir, "second")
		f.change(nil)
		if cs, err := f.handshake(client); err != nil || !cs.DidResume {
			t.Errorf("%s: resumed %v, %v", tls.VersionName(version), cs.DidResume, err)
		}
	}
}

// writeBundle puts a credential bundle in place: the private key, then the chain.
func (f *fixture) writeBundle(name string) {
	f.t.Helper()
	certificate, key := f.ca.Issue(testcert.Leaf{Names: []string{name}})
	f.put(filepath.Join(f.dir, bundleFile), slices.Concat(key, certificate, f.ca.PEM()))
}

func TestACredentialBundleIsServedAndReloaded(t *testing.T) {
	f, config := prepare(t)
	f.start(config)
	f.change(ErrNone)
	f.writeBundle("first")
	f.change(nil)
	f.serves("first")
	f.writeBundle("second")
	f.change(nil)
	f.serves("second")
	if cs, err := f.handshake(nil); err != nil || len(cs.PeerCertificates) != 2 {
		t.Errorf("%d certificates in the chain, want 2: %v", len(cs.PeerCertificates), err)
	}
}

func TestACredentialBundleTakesPrecedenceOverThePair(t *testing.T) {
	f, config := prepare(t)
	f.write(f.dir, "pair")
	f.writeBundle("bundle")
	f.start(config)
	f.change(nil)
	f.serves("bundle")
	must(t, os.Remove(filepath.Join(f.dir, bundleFile)))
	f.change(nil)
	f.serves("pair")
}

func TestABrokenCredentialBundleIsReportedAndThePreviousOneServed(t *testing.T) {
	f, config := prepare(t)
	f.writeBundle("good")
	f.start(config)
	f.change(nil)
	certificate, _ := f.ca.Issue(testcert.Leaf{Names: []string{"x"}})
	f.put(filepath.Join(f.dir, bundleFile), certificate) // without a key
	if c := f.change(errAny); !c.Serving || !strings.Contains(c.Err.Error(), bundleFile) {
		t.Errorf("reported %+v", c)
	}
	f.serves("good")
}

package main

import (
	"io"
	"log"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

func TestPushedImagesCanBePulledWithTheirBills(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0)), registry.WithReferrersSupport(true)))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	target, err := name.NewTag(host + "/team/gate:" + madeOf.version)
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := parse(append([]string{"-out", t.TempDir(), "-root", root, "-push", target.Repository.Name()}, arguments...), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	var output strings.Builder
	if err := run(cfg, &output); err != nil {
		t.Fatal(err)
	}
	for _, p := range programs {
		tag, err := withSuffix(target, p.suffix)
		if err != nil {
			t.Fatal(err)
		}
		checkPushed(t, p, tag, output.String())
	}
}

// checkPushed compares the contents of the registry with the archive.
func checkPushed(t *testing.T, p program, tag name.Tag, output string) {
	t.Helper()
	_, archived := named(t, unpacked(t, p))
	want, err := archived.Digest()
	if err != nil {
		t.Fatal(err)
	}
	pushed, err := remote.Index(tag)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := pushed.Digest(); err != nil || got != want {
		t.Errorf("%s: digest %s, want %s: %v", tag, got, want, err)
	}
	if line := "pushed: " + tag.String() + "@" + want.String(); !slices.Contains(strings.Split(output, "\n"), line) {
		t.Errorf("no line %q in\n%s", line, output)
	}
	checkReferrer(t, tag.Digest(want.String()), provenanceType)
	for _, platform := range platforms {
		digest, err := imageFor(t, pushed, platform).Digest()
		if err != nil {
			t.Fatal(err)
		}
		checkReferrer(t, tag.Digest(digest.String()), bomType)
	}
}

// checkReferrer expects one referrer of this type.
func checkReferrer(t *testing.T, subject name.Digest, want types.MediaType) {
	t.Helper()
	referrers, err := remote.Referrers(subject)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := referrers.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(manifest.Manifests) != 1 || manifest.Manifests[0].ArtifactType != string(want) {
		t.Errorf("referrers of %s: %+v, want one of type %s", subject, manifest.Manifests, want)
	}
}

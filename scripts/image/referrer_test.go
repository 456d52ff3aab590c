package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/queuegate/queuegate/scripts/image/binary/provenancetest"
)

func decode(t *testing.T, text []byte) *cdx.BOM {
	t.Helper()
	b := new(cdx.BOM)
	if err := cdx.NewBOMDecoder(bytes.NewReader(text), cdx.BOMFileFormatJSON).Decode(b); err != nil {
		t.Fatal(err)
	}
	return b
}

func TestTheBillOfMaterialsListsTheModulesOfTheBinary(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(built(t), "queue.linux-arm64.cdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	b := decode(t, text)
	if main := b.Metadata.Component; main.Name != "github.com/queuegate/queuegate/cmd/queue" || main.Version != madeOf.version {
		t.Errorf("main component %+v", main)
	}
	var names []string
	for _, c := range *b.Components {
		if c.Version == "" || c.PackageURL != "pkg:golang/"+c.Name+"@"+c.Version {
			t.Errorf("component %+v", c)
		}
		names = append(names, c.Name)
	}
	for _, want := range []string{"stdlib", "go.uber.org/zap", "github.com/prometheus/client_golang", "google.golang.org/protobuf"} {
		if !slices.Contains(names, want) {
			t.Errorf("%s is not among %q", want, names)
		}
	}
	if slices.Contains(names, "go.uber.org/goleak") {
		t.Error("a module of the tests is in the bill")
	}
}

func TestTheImageArchiveAttachesABillOfMaterialsToEachImage(t *testing.T) {
	for _, p := range programs {
		l := unpacked(t, p)
		_, index := named(t, l)
		for _, platform := range platforms {
			digest, err := imageFor(t, index, platform).Digest()
			if err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(filepath.Join(built(t), p.name+".linux-"+platform.Architecture+".cdx.json"))
			if err != nil {
				t.Fatal(err)
			}
			outer, err := l.ImageIndex()
			if err != nil {
				t.Fatal(err)
			}
			manifest, err := outer.IndexManifest()
			if err != nil {
				t.Fatal(err)
			}
			found := 0
			for _, d := range manifest.Manifests {
				if d.MediaType.IsIndex() {
					continue
				}
				artifact, err := outer.Image(d.Digest)
				if err != nil {
					t.Fatal(err)
				}
				if refersTo(t, artifact, digest) {
					found++
					checkText(t, artifact, text)
				}
			}
			if found != 1 {
				t.Errorf("%s for %s: %d bills", p.name, platform, found)
			}
		}
	}
}

func refersTo(t *testing.T, artifact v1.Image, digest v1.Hash) bool {
	t.Helper()
	manifest, err := artifact.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	return manifest.Subject != nil && manifest.Subject.Digest == digest
}

func checkText(t *testing.T, artifact v1.Image, want []byte) {
	t.Helper()
	layers, err := artifact.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers: %v", len(layers), err)
	}
	r, err := layers[0].Compressed()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var got bytes.Buffer
	if _, err := got.ReadFrom(r); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Error("the referrer in the archive differs from the file")
	}
}

func TestTheProvenanceNamesTheIndexAndItsImages(t *testing.T) {
	for _, p := range programs {
		text, err := os.ReadFile(filepath.Join(built(t), p.name+".provenance.json"))
		if err != nil {
			t.Fatal(err)
		}
		s, predicate := provenancetest.Read(t, text)
		if got := predicate.GetRunDetails().GetBuilder().GetId(); got != madeOf.builder {
			t.Errorf("%s: builder %q, want %q", p.name, got, madeOf.builder)
		}
		descriptor, index := named(t, unpacked(t, p))
		manifest, err := index.IndexManifest()
		if err != nil {
			t.Fatal(err)
		}
		want := []string{descriptor.Digest.Hex}
		for _, d := range manifest.Manifests {
			want = append(want, d.Digest.Hex)
		}
		var got []string
		for _, subject := range s.GetSubject() {
			got = append(got, subject.GetDigest()["sha256"])
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: subjects %q, want %q", p.name, got, want)
		}
	}
}

func TestTheImageArchiveAttachesTheProvenanceToTheIndex(t *testing.T) {
	for _, p := range programs {
		l := unpacked(t, p)
		descriptor, _ := named(t, l)
		text, err := os.ReadFile(filepath.Join(built(t), p.name+".provenance.json"))
		if err != nil {
			t.Fatal(err)
		}
		outer, err := l.ImageIndex()
		if err != nil {
			t.Fatal(err)
		}
		manifest, err := outer.IndexManifest()
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, d := range manifest.Manifests {
			if d.MediaType.IsIndex() {
				continue
			}
			artifact, err := outer.Image(d.Digest)
			if err != nil {
				t.Fatal(err)
			}
			if refersTo(t, artifact, descriptor.Digest) {
				found++
				checkText(t, artifact, text)
			}
		}
		if found != 1 {
			t.Errorf("%s: %d statements", p.name, found)
		}
	}
}

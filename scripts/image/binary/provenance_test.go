package binary

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/queuegate/queuegate/scripts/image/binary/provenancetest"
)

const revision = "0123456789abcdef0123456789abcdef01234567"

// ownProgram returns the binary of this test. A test binary does not record the modules
// that it depends on, so its provenance lists no module except the standard library.
func ownProgram(t *testing.T) []byte {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return program
}

func TestProvenanceNamesSubjectsSourcesToolchainAndBuilder(t *testing.T) {
	run := Run{Target: "release", Builder: "https://builder.test/1", Source: Source{Version: "v1.2.3", Revision: revision, FIPS: "v1.0.0"}}
	program, sum := ownProgram(t), strings.Repeat("0a", 32)
	text, err := Provenance(run, [][]byte{program, program}, []Subject{{"file", sum}})
	if err != nil {
		t.Fatal(err)
	}
	s, p := provenancetest.Read(t, text)
	if len(s.Subject) != 1 || s.Subject[0].Name != "file" || s.Subject[0].Digest["sha256"] != sum {
		t.Errorf("subjects %v", s.Subject)
	}
	if got := p.GetRunDetails().GetBuilder().GetId(); got != run.Builder {
		t.Errorf("builder %q", got)
	}
	parameters := p.GetBuildDefinition().GetExternalParameters().AsMap()
	for name, want := range map[string]string{"target": "release", "version": "v1.2.3", "GOFIPS140": "v1.0.0", "source": "git+" + repository} {
		if parameters[name] != want {
			t.Errorf("parameter %s is %v, want %q", name, parameters[name], want)
		}
	}
	digests := map[string]map[string]string{}
	for _, d := range p.GetBuildDefinition().GetResolvedDependencies() {
		uri, _, _ := strings.Cut(d.GetUri(), "@")
		if digests[uri] != nil {
			t.Errorf("%s is listed twice", uri)
		}
		digests[uri] = d.GetDigest()
	}
	if digests["git+"+repository]["gitCommit"] != revision {
		t.Errorf("sources %v", digests["git+"+repository])
	}
	if _, ok := digests["pkg:golang/stdlib"]; !ok {
		t.Errorf("no Go toolchain among %v", digests)
	}
	if second, err := Provenance(run, [][]byte{program}, []Subject{{"file", sum}}); err != nil || !bytes.Equal(text, second) {
		t.Errorf("a second statement differs: %v", err)
	}
}

func TestProvenanceWithoutACommitHasSourcesWithoutADigest(t *testing.T) {
	text, err := Provenance(Run{Target: "image", Builder: DefaultBuilder}, [][]byte{ownProgram(t)}, []Subject{{"image", strings.Repeat("00", 32)}})
	if err != nil {
		t.Fatal(err)
	}
	_, p := provenancetest.Read(t, text)
	if d := p.GetBuildDefinition().GetResolvedDependencies()[0]; d.GetUri() != "git+"+repository || len(d.GetDigest()) > 0 {
		t.Errorf("sources %v", d)
	}
}

func TestTheBuilderInAProvenanceMustBeAnAbsoluteURI(t *testing.T) {
	for uri, ok := range map[string]bool{DefaultBuilder: true, "urn:builder:1": true, "me": false, "": false, "/builder": false} {
		if err := CheckBuilder(uri); (err == nil) != ok {
			t.Errorf("%q: %v", uri, err)
		}
	}
}

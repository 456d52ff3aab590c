// Package provenancetest reads provenance with the types of in-toto.
package provenancetest

import (
	"testing"

	provenance "github.com/in-toto/attestation/go/predicates/provenance/v1"
	statement "github.com/in-toto/attestation/go/v1"
	"google.golang.org/protobuf/encoding/protojson"
)

// Read decodes and validates a statement with SLSA provenance v1. An unknown field is
// an error.
func Read(t *testing.T, text []byte) (*statement.Statement, *provenance.Provenance) {
	t.Helper()
	s, p := new(statement.Statement), new(provenance.Provenance)
	if err := protojson.Unmarshal(text, s); err != nil {
		t.Fatal(err)
	}
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	if s.GetPredicateType() != "https://slsa.dev/provenance/v1" {
		t.Fatalf("predicate type %q", s.GetPredicateType())
	}
	predicate, err := protojson.Marshal(s.GetPredicate())
	if err != nil {
		t.Fatal(err)
	}
	if err := protojson.Unmarshal(predicate, p); err != nil {
		t.Fatal(err)
	}
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	return s, p
}

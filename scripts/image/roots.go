package main

import (
	"bytes"
	"encoding/pem"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// roots returns Mozilla's certificate authorities in PEM. It omits authorities that are
// trusted only under conditions, which PEM cannot express.
func roots() []byte {
	var text bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // no error, because it writes to memory
		}
	}
	return text.Bytes()
}

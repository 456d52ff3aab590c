package field

import (
	"strings"
	"testing"
)

func TestTokenCharactersMatchRFC9110(t *testing.T) {
	const tokens = "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	for b := range 256 {
		if got, want := IsToken(byte(b)), strings.IndexByte(tokens, byte(b)) >= 0; got != want {
			t.Errorf("IsToken(%q) = %v", byte(b), got)
		}
	}
}

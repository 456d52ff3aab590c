package probe

import (
	"testing"

	"github.com/queuegate/queuegate/internal/testkit/leak"
)

// TestMain fails if a goroutine outlives the tests.
func TestMain(m *testing.M) { leak.Main(m) }

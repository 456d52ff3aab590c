package probe

import (
	"testing"

	"github.com/queuegate/queuegate/pkg/probe/check/checktest"
)

// TestMain fails if a goroutine outlives the tests.
func TestMain(m *testing.M) { checktest.Main(m) }

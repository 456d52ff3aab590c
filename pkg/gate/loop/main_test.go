package loop

import (
	"testing"

	"github.com/queuegate/queuegate/pkg/gate/internal/leakcheck"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

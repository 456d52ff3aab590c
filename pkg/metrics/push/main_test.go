package push

import (
	"testing"

	"github.com/queuegate/queuegate/internal/testkit/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

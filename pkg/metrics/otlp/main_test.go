package otlp

import (
	"testing"

	"github.com/queuegate/queuegate/pkg/metrics/otlp/otlptest"
)

func TestMain(m *testing.M) { otlptest.Main(m) }

package repeat

import (
	"bytes"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/queuegate/queuegate/internal/testkit"
)

const docsPath = "../../../docs/logs.md"

func TestDocsShowARepeatedMessage(t *testing.T) {
	var out bytes.Buffer
	f := &fixture{now: time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)}
	inner := zapcore.NewCore(zapcore.NewJSONEncoder(zapcore.EncoderConfig{
		TimeKey: "timestamp", LevelKey: "severity", NameKey: "logger", MessageKey: "message",
		EncodeTime: zapcore.ISO8601TimeEncoder, EncodeLevel: zapcore.LowercaseLevelEncoder,
	}), zapcore.AddSync(&out), zap.InfoLevel)
	log := zap.New(NewCore(inner, 10*time.Second, f.Now), zap.WithClock(f)).Named("queue")
	for range 301 {
		log.Warn("pending request queue full", zap.Int("status", 503))
		f.now = f.now.Add(50 * time.Millisecond)
	}
	_ = log.Sync()
	want := "\n```json\n" + out.String() + "```\n\n"
	const begin = "<!-- repeat: begin; go test ./pkg/metrics/repeat -run Docs -update -->\n"
	const end = "<!-- repeat: end -->\n"
	testkit.Section(t, docsPath, begin, end, want)
}

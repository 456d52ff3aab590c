package repeat

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

var update = flag.Bool("update", false, "write the generated part of docs/logs.md")

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

	text, err := os.ReadFile(docsPath)
	if err != nil {
		t.Fatal(err)
	}
	const begin = "<!-- repeat: begin; go test ./pkg/metrics/repeat -run Docs -update -->\n"
	const end = "<!-- repeat: end -->\n"
	before, rest, ok := strings.Cut(string(text), begin)
	part, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the example", docsPath)
	}
	if *update {
		if err := os.WriteFile(docsPath, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if part != want {
		t.Errorf("the example in %s is not what is logged; run: go test ./pkg/metrics/repeat -run Docs -update", docsPath)
	}
}

package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/queuegate/queuegate/internal/testkit"
)

func TestAPresetSetsItsSettings(t *testing.T) {
	for _, p := range presets {
		cfg := mustLoad(t, nil, map[string]string{"PRESET": p.name})
		for _, v := range p.values {
			s := cfg.setting(v.setting)
			want := strings.ReplaceAll(v.text, userPort, fmt.Sprint(cfg.UserPort))
			if got := s.value.text(); !strings.EqualFold(got, want) || s.origin() != "preset, "+p.name {
				t.Errorf("PRESET=%s: %s=%s (%s), want %s", p.name, v.setting, got, s.origin(), want)
			}
		}
	}
}

func TestEverySourceTakesPrecedenceOverThePreset(t *testing.T) {
	cfg := mustLoad(t, []string{"--preset=vllm", "--engine-max-waiting=7", "--queue-fair-by="}, map[string]string{"USER_PORT": "9000", "QUEUE_REFUSAL_STATUS": "503"})
	for name, want := range map[string]string{
		"USER_PORT": "9000 environment", "ENGINE_METRICS": "http://127.0.0.1:9000/metrics preset, vllm", "ENGINE_MAX_WAITING": "7 flag",
		"QUEUE_FAIR_BY": " default", "QUEUE_REFUSAL_STATUS": "503 environment", "QUEUE_RETRY_AFTER": "measured preset, vllm",
	} {
		s := cfg.setting(name)
		if got := s.value.text() + " " + s.origin(); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	live, err := cfg.Live(LiveFiles{Annotations: "queuegate.dev/engine-max-waiting=\"3\"\nqueuegate.dev/queue-refusal-status=\"\"\n"})
	if err != nil {
		t.Fatal(err)
	}
	if live.EngineMaxWaiting != 3 || live.Gate.QueueRefusalStatus != 503 {
		t.Errorf("annotations: %d, %d", live.EngineMaxWaiting, live.Gate.QueueRefusalStatus)
	}
}

func TestAPresetWithoutAKnownPortLeavesTheEngineMetricsUnset(t *testing.T) {
	cfg, _, warnings, err := load([]string{"--preset=sglang", "--user-port=auto", "--", "server"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if cfg.EngineMetrics != "" || len(warnings) != 1 || !strings.HasPrefix(warnings[0], "PRESET=sglang: ENGINE_METRICS is not set") {
		t.Errorf("%q, warnings %q", cfg.EngineMetrics, warnings)
	}
}

func TestAnUnknownPresetIsRejectedWithTheKnownOnes(t *testing.T) {
	want := `PRESET="vlm": want vllm, sglang, triton or kserve`
	if got := problemsOf(t, nil, map[string]string{"PRESET": "vlm"}); len(got) != 1 || got[0] != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestDocsHaveThePresetsOfTheCode(t *testing.T) {
	var b strings.Builder
	b.WriteString("\n| setting |")
	for _, p := range presets {
		b.WriteString(" `" + p.name + "` |")
	}
	b.WriteString("\n|---" + strings.Repeat("|---", len(presets)) + "|\n")
	for i, v := range presets[0].values {
		b.WriteString("| `" + v.setting + "` |")
		for _, p := range presets {
			b.WriteString(" `" + p.values[i].text + "` |")
		}
		b.WriteString("\n")
	}
	b.WriteString("\n")
	testkit.Section(t, "../../../../docs/models.md", "<!-- presets: begin; go test ./cmd/queue/internal/config -run Docs -update -->\n", "<!-- presets: end -->\n", b.String())
}

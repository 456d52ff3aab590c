package config

import (
	"strconv"
	"strings"
)

// A preset contains values of settings for one kind of model server. All other sources
// except defaults override them.
type preset struct {
	name   string
	values []presetValue
}

type presetValue struct{ setting, text string }

// userPort in a value stands for USER_PORT.
const userPort = "$USER_PORT"

// presets are the values of PRESET. Ports and paths are the defaults of the servers.
// Header fields are from the Gateway API Inference Extension.
var presets = []preset{
	{"vllm", inferenceServer("8000", "http://127.0.0.1:"+userPort+"/metrics", "/health,/ping,/load,/version,/metrics,/v1/models")},
	{"sglang", inferenceServer("30000", "http://127.0.0.1:"+userPort+"/metrics", "/health,/metrics,/get_model_info,/get_server_info,/v1/models")},
	{"triton", inferenceServer("8000", "http://127.0.0.1:8002/metrics", "/v2,/v2/health/*")},
	{"kserve", inferenceServer("8080", "http://127.0.0.1:"+userPort+"/metrics", "/,/metrics,/v1/models,/v2/health/*,/v2/models,/openai/v1/models")},
}

func inferenceServer(port, metrics, paths string) []presetValue {
	return []presetValue{
		{"USER_PORT", port},
		{"UNLIMITED_PATHS", paths},
		{"ENGINE_METRICS", metrics},
		{"ENGINE_METRICS_PERIOD", "20ms"},
		{"QUEUE_FAIR_BY", "header:x-gateway-inference-fairness-id"},
		{"QUEUE_PRIORITY_BY", "header:x-gateway-inference-objective"},
		{"QUEUE_DEADLINE_BY", "header:x-slo-ttft-ms"},
		{"QUEUE_REFUSAL_STATUS", "429"},
		{"QUEUE_RETRY_AFTER", "measured"},
	}
}

var presetNames = func() (names []string) {
	for _, p := range presets {
		names = append(names, p.name)
	}
	return names
}()

// presetText returns the value that the chosen preset has for the setting s; "" = none.
// Without ENGINE_METRICS, it also returns "" for the other ENGINE_ settings, because
// they have no effect then. Load reads ENGINE_METRICS before them.
func (l *loader) presetText(s *setting) string {
	if strings.HasPrefix(s.name, "ENGINE_M") && s.name != "ENGINE_METRICS" && l.EngineMetrics == "" {
		return ""
	}
	for _, p := range presets {
		if p.name != l.Preset {
			continue
		}
		for _, v := range p.values {
			if v.setting == s.name {
				return l.expand(s, v.text)
			}
		}
	}
	return ""
}

// expand replaces $USER_PORT. USER_PORT is read before settings that refer to it.
func (l *loader) expand(s *setting, text string) string {
	if !strings.Contains(text, userPort) {
		return text
	}
	if l.UserPort == AutoPort {
		l.warn("PRESET=%s: %s is not set, because USER_PORT=auto is known only once the application listens", l.Preset, s.name)
		return ""
	}
	return strings.ReplaceAll(text, userPort, strconv.Itoa(l.UserPort))
}

package config

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"
)

func TestQueuectlKnowsEverySettingOfTheGate(t *testing.T) {
	const path = "../../../queuectl/internal/manifest/settings.json"
	type row struct {
		Variable string `json:"variable"`
		Flag     string `json:"flag"`
		Wants    string `json:"wants"`
	}
	var rows []row
	for _, s := range knownSettings() {
		rows = append(rows, row{strings.Fields(s.names)[0], s.flag, s.value.about().wants})
	}
	var want bytes.Buffer
	encoder := json.NewEncoder(&want)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "\t")
	if err := encoder.Encode(rows); err != nil {
		t.Fatal(err)
	}
	if flag.Lookup("update").Value.String() == "true" {
		if err := os.WriteFile(path, want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want.Bytes()) {
		t.Errorf("%s differs from the settings (%v); run: go test ./cmd/queue/internal/config -run Queuectl -update", path, err)
	}
}

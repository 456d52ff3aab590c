//go:build planted

package simulate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestPlantedFaultsOfTheGateAreFoundBySimulation plants each fault, builds this test
// binary with it, and runs seeds until one finds the fault. PLANTED is a part of the
// names of faults, or "all". FROM is the number of faults to skip. The test prints a
// table row per fault.
func TestPlantedFaultsOfTheGateAreFoundBySimulation(t *testing.T) {
	root, err := filepath.Abs("../../pkg/gate")
	if err != nil {
		t.Fatal(err)
	}
	all, err := readSources(root)
	if err != nil {
		t.Fatal(err)
	}
	which := os.Getenv("PLANTED")
	from, _ := strconv.Atoi(os.Getenv("FROM"))
	faults := slices.Concat(faults, http2Faults)
	for _, f := range faults {
		if _, _, err := f.mutate(all); err != nil {
			t.Error(err)
		}
	}
	found, missed := 0, 0
	for _, f := range faults[from:] {
		if which != "all" && !strings.Contains(f.name, which) {
			continue
		}
		path, text, err := f.mutate(all)
		if err != nil {
			continue
		}
		finding := "**not found**"
		if seen := search(t, path, text); seen != "" {
			finding = seen
			found++
		} else {
			missed++
		}
		fmt.Printf("| %s | %s |\n", f.name, finding)
	}
	fmt.Printf("%d found, %d not\n", found, missed)
}

var seedLine = regexp.MustCompile(`(?m)seed (\d+): (.*)$`)

// plantedTime limits the processor time for finding a fault.
func plantedTime() string {
	if text := os.Getenv("SIMCPU"); text != "" {
		return text
	}
	return "60s"
}

// search runs the simulation of a gate in which the file path has the content text. It
// returns the finding, or "".
func search(t *testing.T, path, text string) string {
	dir := t.TempDir()
	wrongFile := filepath.Join(dir, "wrong.go")
	overlay, _ := json.Marshal(map[string]map[string]string{"Replace": {path: wrongFile}})
	binary := filepath.Join(dir, "simulate.test")
	for name, content := range map[string][]byte{wrongFile: []byte(text), filepath.Join(dir, "overlay.json"): overlay} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command("go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay", filepath.Join(dir, "overlay.json"), "-o", binary, ".").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
		return ""
	}
	run := exec.Command(binary, "-test.run", "TestASimulatedGateHasNoFaultForRandomSeeds", "-test.timeout", "30m")
	run.Env = append(os.Environ(), "SIMTIME=25m", "SIMCPU="+plantedTime(), "FIRST=1", "SHRINK=no", "SEED=")
	out, err := run.CombinedOutput()
	if err == nil {
		return ""
	}
	if m := seedLine.FindAllSubmatch(out, -1); m != nil {
		last := m[len(m)-1]
		return fmt.Sprintf("%s (seed %s, %s)", withoutNumbers(string(last[2])), last[1], run.ProcessState.UserTime().Round(100*time.Millisecond))
	}
	if i := bytes.Index(out, []byte("panic: ")); i >= 0 {
		line, _, _ := bytes.Cut(out[i:], []byte("\n"))
		return string(line)
	}
	return "failed without a finding: " + printable(out)
}

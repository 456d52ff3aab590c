package launch

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// The processes choose ports concurrently, without binding them.
func TestConcurrentTestProcessesNeverChooseTheSamePort(t *testing.T) {
	const processes, each = 4, 600
	if os.Getenv("GIVE_PORTS") != "" {
		for range each {
			os.Stdout.WriteString("port " + Address(FreePort(t)) + "\n")
		}
		os.Stdin.Read(make([]byte, 1)) // wait until all processes have chosen ports
		return
	}
	seen := map[string]bool{}
	for range processes {
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), "GIVE_PORTS=1")
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer cmd.Wait()
		defer in.Close()
		for range each {
			var line strings.Builder
			for b := make([]byte, 1); b[0] != '\n'; line.Write(b) {
				if _, err := out.Read(b); err != nil {
					t.Fatal(err)
				}
			}
			if seen[line.String()] {
				t.Errorf("chosen twice: %s", line.String())
			}
			seen[line.String()] = true
		}
	}
}

// FreeRow takes a row of 6 ports from a block of 50. The other ports of the block
// remain for FreePort. The test uses up all of them, so that FreePort would return a
// port of the row if the row were still in the list.
func TestConsecutivePortsAreNotReused(t *testing.T) {
	const n = 6
	first := FreeRow(t, n)
	for range 2 * blockSize {
		if port := FreePort(t); first <= port && port < first+n {
			t.Errorf("port %d belongs to the row from %d, and was chosen again", port, first)
		}
	}
}

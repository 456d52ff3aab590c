package launch

import (
	"net"
	"os/exec"
	"strconv"
	"sync"
	"testing"
)

func TestAPortIsFreeAlthoughProcessesStartMeanwhile(t *testing.T) {
	done := make(chan struct{})
	var starts sync.WaitGroup
	for range 4 {
		starts.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					_ = exec.Command("true").Run()
				}
			}
		})
	}
	defer starts.Wait()
	defer close(done)
	for range 300 {
		port := FreePort(t)
		l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port))
		if err != nil {
			t.Fatal(err)
		}
		_ = l.Close()
	}
}

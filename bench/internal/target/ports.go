package target

import (
	"fmt"
	"math/rand/v2"
	"os"
	"sync"

	"github.com/queuegate/queuegate/bench/internal/socket"
)

// lowestPort keeps away from what services usually use.
const lowestPort = 10_000

// given are the ports that were handed out, so that of several targets that
// start at once none gets a port that another has not bound yet.
var given = struct {
	sync.Mutex
	ports map[int]bool
}{ports: map[int]bool{}}

// freePorts returns a free port for each name. They lie below the range from
// which the kernel takes the ports of outgoing connections, so that none of ten
// thousand clients can take one away.
func freePorts(names []string) (map[string]int, error) {
	given.Lock()
	defer given.Unlock()
	end := ephemeralStart()
	if len(given.ports) > (end-lowestPort)/2 {
		clear(given.ports) // those of long ago
	}
	ports := map[string]int{}
	var held []int
	defer func() {
		for _, fd := range held {
			socket.Close(fd)
		}
	}()
	for _, name := range names {
		for tries := 0; ; tries++ {
			candidate := lowestPort + rand.IntN(end-lowestPort)
			if tries >= 100 {
				candidate = 0
			} else if given.ports[candidate] {
				continue
			}
			fd, port, err := socket.Bind(candidate)
			if err == nil {
				held = append(held, fd)
				ports[name] = port
				given.ports[port] = true
				break
			}
			if candidate == 0 {
				return nil, fmt.Errorf("looking for a free port: %w", err)
			}
		}
	}
	return ports, nil
}

// ephemeralStart is the first port of net.ipv4.ip_local_port_range.
func ephemeralStart() int {
	const customary = 32768
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return customary
	}
	var first, last int
	if _, err := fmt.Sscan(string(text), &first, &last); err != nil || first <= lowestPort {
		return customary
	}
	return first
}

package statuspage

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// State is the state of the gate as a whole, shown at the top of the page.
//
//	from               event                                               to
//	Starting           all containers are ready                            Ready
//	Starting           the gate is older than StartTimeout                 NotReady
//	Starting           each container has been ready, but not all are now  NotReady
//	NotReady           all containers are ready                            Ready
//	Ready              a request is rejected, or the queue is full         Overloaded
//	Overloaded         no request is rejected for recentSeconds seconds,   Ready
//	                   and the queue is not full
//	Ready, Overloaded  a container is no longer ready                      NotReady
//	any but Ended      the drain begins                                    Draining
//	any                Page.Close is called                                Ended
type State uint8

const (
	Starting State = iota
	NotReady
	Ready
	Overloaded
	Draining
	Ended
)

func (s State) String() string {
	return [...]string{"starting", "not-ready", "ready", "overloaded", "draining", "ended"}[s]
}

// inputs are the values that determine the State.
type inputs struct {
	ended, draining bool
	ready           bool // all containers are ready now
	wasReady        bool // each container has been ready at least once
	uptime          time.Duration
	startTimeout    time.Duration
	queueFull       bool
	recentFailures  failureCounts // failures of the last recentSeconds seconds
}

// state does not depend on earlier states.
func (s *inputs) state() State {
	switch {
	case s.ended:
		return Ended
	case s.draining:
		return Draining
	case !s.ready && !s.wasReady && s.uptime < s.startTimeout:
		return Starting
	case !s.ready:
		return NotReady
	case s.queueFull || s.recentFailures.refused > 0:
		return Overloaded
	}
	return Ready
}

// sinceUnknown means an unknown start.
const sinceUnknown = -1

// describe returns the state, its cause and its start. Ready has a cause only if
// requests failed recently.
func (p *Page) describe(m *message, s *inputs) stateJSON {
	state := s.state()
	d := stateJSON{Name: state.String(), Since: sinceUnknown}
	switch state {
	case Starting, NotReady:
		d.Since = p.cfg.Timeline.notReadySince(m.Containers)
		d.Cause = notReadyCause(m.Containers, state == Starting)
	case Ready:
		d.Since = p.cfg.Timeline.readySince()
		if n := s.recentFailures.failed; n > 0 {
			d.Cause = recently(n, "failed")
		}
	case Overloaded:
		d.Cause = overloadCause(&m.Now, s)
	case Draining:
		d.Cause = underWay(&m.Now)
	}
	return d
}

// notReadyCause lists the containers that are not ready. If addresses is true, the list
// includes the address of each probe, because a wrong address is a frequent cause.
func notReadyCause(containers []containerJSON, addresses bool) string {
	var causes []string
	for i := range containers {
		if c := &containers[i]; !c.Ready {
			cause := c.Name + ": " + c.Cause
			if addresses && c.Probe != "" {
				cause += " (" + c.Probe + ")"
			}
			causes = append(causes, cause)
		}
	}
	return strings.Join(causes, "; ")
}

func overloadCause(now *nowJSON, s *inputs) string {
	var causes []string
	if s.queueFull {
		causes = append(causes, fmt.Sprintf("the queue is full (%s waiting)", grouped(int64(now.Capacity))))
	}
	if n := s.recentFailures.refused; n > 0 {
		causes = append(causes, recently(n, "refused"))
	}
	return strings.Join(causes, "; ")
}

func recently(n uint64, result string) string {
	return fmt.Sprintf("%s %s in the last %d s", plural(int64(n), "request"), result, recentSeconds)
}

func underWay(now *nowJSON) string {
	var parts []string
	if now.Requests > 0 {
		parts = append(parts, plural(now.Requests, "request"))
	}
	if now.Tunnels > 0 {
		parts = append(parts, plural(now.Tunnels, "tunnel"))
	}
	if len(parts) == 0 {
		return "nothing under way"
	}
	return strings.Join(parts, " and ") + " under way"
}

func plural(n int64, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return grouped(n) + " " + word + "s"
}

// grouped formats n with commas between thousands.
func grouped(n int64) string {
	digits := strconv.FormatInt(n, 10)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

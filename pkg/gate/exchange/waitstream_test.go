package exchange

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/wire"
)

func TestTheErrorEventOfEveryOutcomeIsValidJSONAndFitsTheReservedCapacity(t *testing.T) {
	for _, o := range gate.Outcomes() {
		w := &waiter{status: 599}
		event := string(w.appendError(nil, o))
		data, ok := strings.CutPrefix(event, "event: error\ndata: ")
		var got struct {
			Error struct{ Message, Type, Code string }
		}
		if err := json.Unmarshal([]byte(data), &got); !ok || err != nil || !strings.HasSuffix(data, "}\n\n") || strings.Count(event, "\n") != 3 {
			t.Errorf("%v: %q (%v)", o, event, err)
		}
		if e := got.Error; e.Code != o.String() || e.Type != "queuegate" || !strings.HasSuffix(e.Message, ": status 599") || len(e.Message) < 15 {
			t.Errorf("%v: %+v", o, e)
		}
		if len(event) > waitReserve {
			t.Errorf("%v: %d bytes, the reserve is %d", o, len(event), waitReserve)
		}
	}
}

// interimClient counts interim responses.
type interimClient struct {
	Downstream
	interims int
}

func (c *interimClient) Continue()              { c.interims++ }
func (c *interimClient) Interim(*wire.Response) { c.interims++ }

func TestTheGateSendsNoInterimResponseAfterItHasSentTheHeadOfAnEventStream(t *testing.T) {
	for form, want := range map[waitForm]int{waitMayPromise: 2, waitPage: 2, waitPromised: 0} {
		c := &interimClient{}
		var down Downstream = &waiter{Downstream: c, form: form}
		down.Continue()
		down.Interim(&wire.Response{})
		if c.interims != want {
			t.Errorf("form %d: %d interim responses, want %d", form, c.interims, want)
		}
	}
}

func TestNoWaitConfigIsAllocatedWhenWaitKeepaliveAndWaitPageAreOff(t *testing.T) {
	if newWaitConfig(&Config{}) != nil {
		t.Error("a configuration of waiting clients without settings")
	}
	for _, c := range []Config{{WaitKeepalive: time.Second}, {WaitPage: time.Second}} {
		if got := newWaitConfig(&c); got == nil || got.keepalive != c.WaitKeepalive || got.page != c.WaitPage {
			t.Errorf("%+v: %+v", c, got)
		}
	}
	if err := (&Config{WaitKeepalive: -1, WaitPage: -1}).Check(); err == nil || !strings.Contains(err.Error(), "WaitKeepalive -1ns") || !strings.Contains(err.Error(), "WaitPage -1ns") {
		t.Errorf("negative durations: %v", err)
	}
}

package examples

import (
	"bufio"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// freePorts returns free ports from 11000 to 14999. The kernel chooses higher ports for
// other processes, so they stay free until the test uses them.
func freePorts(t *testing.T, n int) []string {
	t.Helper()
	var list []string
	for range 100 * n {
		port := strconv.Itoa(11000 + rand.IntN(4000))
		l, err := net.Listen("tcp", ":"+port)
		if err != nil {
			continue
		}
		defer l.Close()
		if list = append(list, port); len(list) == n {
			return list
		}
	}
	t.Fatal("no free ports")
	return nil
}

func generate(t *testing.T, base, method, text string) *http.Request {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), "POST", base+"/v2/models/parrot/"+method, strings.NewReader(`{"text_input": "`+text+`"}`))
	if err != nil {
		t.Fatal(err)
	}
	return request
}

// The gate starts the model server, queues requests until the model is loaded, admits one
// request at a time, and forwards each token at once.
func TestAModelServerStreamsBehindTheGate(t *testing.T) {
	ports := freePorts(t, 2)
	p := start(t, nil, "queue", "--side-ports", "off", "--port", ports[0], "--user-port", ports[1], "--concurrency", "1",
		"--drain-quiet", "0", "--drain-socket", "@queuegate-examples-"+ports[0],
		"--", bin+"/streaming", "-load", "500ms", "-token", "20ms")
	base := "http://127.0.0.1:" + ports[0]
	p.await(`(listening)`)

	if status, body := ask(t, generate(t, base, "generate", "polly wants a cracker")); status != 200 || !strings.Contains(body, `"text_output":"polly wants a cracker"`) {
		t.Errorf("%d %s", status, body)
	}

	answer, err := http.DefaultClient.Do(generate(t, base, "generate_stream", "one two three"))
	if err != nil {
		t.Fatal(err)
	}
	var events []string
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			events = append(events, data)
		}
	}
	_ = answer.Body.Close()
	if kind := answer.Header.Get("Content-Type"); kind != "text/event-stream" || len(events) != 3 || events[2] != `{"model_name":"parrot","text_output":"three"}` {
		t.Errorf("%s, events %q", kind, events)
	}

	// This response has 100,000 tokens of 20 ms, so it would take 33 minutes. Its first
	// event must nevertheless arrive immediately.
	endless, err := http.DefaultClient.Do(generate(t, base, "generate_stream", strings.Repeat("again ", 100_000)))
	if err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(endless.Body).ReadString('\n'); err != nil || !strings.Contains(line, "again") {
		t.Errorf("%q, %v", line, err)
	}
	// A disconnect ends the request, and frees the slot for the next one.
	_ = endless.Body.Close()
	if status, body := ask(t, generate(t, base, "generate", "next")); status != 200 {
		t.Errorf("%d %s", status, body)
	}
	if status, _ := get(t, base+"/", "K-Network-Probe", "queue"); status != 200 {
		t.Errorf("the probe: %d", status)
	}
	p.end()
}

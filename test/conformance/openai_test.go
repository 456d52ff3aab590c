package conformance

import (
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// slowModel responds so late that a gate with WAIT_KEEPALIVE has begun an event stream.
// For one model the response is an error.
func slowModel(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	time.Sleep(3 * time.Second)
	if strings.Contains(string(body), "failing") {
		http.Error(w, "no such model", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	out := http.NewResponseController(w)
	for i, text := range []string{"Grüße", " ", "\u2028", "\\n", "🙂"} {
		fmt.Fprintf(w, "id: %d\ndata: {\"choices\":[{\"index\":0,\"delta\":{\"content\":%q}}]}\n\n", i, text)
		_ = out.Flush()
	}
	_, _ = io.WriteString(w, "data: [DONE]\n\n")
}

func TestOpenAIClientsReadTheSameFromAPromisedStreamAsFromTheContainer(t *testing.T) {
	node := installed(t, "node", "nodejs")
	if exec.Command(node, "-e", `for (const name of ['openai', 'eventsource-parser']) require.resolve(name, {paths: ['clients', ...(process.env.NODE_PATH || '').split(':')]})`).Run() != nil {
		t.Skip("openai or eventsource-parser is not installed: npm install --prefix test/conformance/clients, or NODE_PATH")
	}
	c := serve(t, http.HandlerFunc(slowModel))
	want := outputOf(t, node, "clients/openai.mjs", "http://"+podAddress(c))
	if !strings.Contains(want, "🙂") || !strings.Contains(want, `"status":200`) {
		t.Fatalf("of the container alone:\n%s", want)
	}
	want += `{"name":"failing","text":"","error":"APIError","code":"not-event-stream","type":"queuegate","message":"upstream did not respond with an event stream: status 404"}` + "\n" +
		`{"name":"comments","any":true}` + "\n"
	g := startGate(t, c, "WAIT_KEEPALIVE=100ms")
	if got := outputOf(t, node, "clients/openai.mjs", "http://"+g.address(), "failing"); got != want {
		t.Errorf("%s, want\n%s", got, want)
	}
}

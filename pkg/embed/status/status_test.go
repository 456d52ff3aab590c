package status

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/queuegate/queuegate/pkg/embed"
)

func read(t *testing.T, url string) string {
	t.Helper()
	answer, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatal(answer.Status, err)
	}
	return string(text)
}

func TestThePageShowsTheGate(t *testing.T) {
	g, err := embed.New(embed.Config{ConcurrencyLimit: 1, Identity: embed.Identity{Service: "shop"}, Uncounted: []string{"/health"}})
	if err != nil {
		t.Fatal(err)
	}
	page := New(g)
	at := httptest.NewServer(page)
	defer at.Close()
	defer page.Close()
	if text := read(t, at.URL); !strings.Contains(text, "<!doctype html>") {
		t.Errorf("got %.200s", text)
	}

	entered, leave := make(chan struct{}, 1), make(chan struct{})
	served := httptest.NewServer(g.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			entered <- struct{}{}
			<-leave
		}
	})))
	defer served.Close()
	read(t, served.URL+"/health")
	done := make(chan error, 1)
	go func() {
		answer, err := http.Get(served.URL + "/slow")
		if err == nil {
			err = answer.Body.Close()
		}
		done <- err
	}()
	<-entered
	if answer, err := http.Get(served.URL + "/refused?secret"); err != nil || answer.StatusCode != http.StatusServiceUnavailable {
		t.Fatal(answer, err)
	}

	var figures struct {
		State  struct{ Name string }
		Errors struct {
			List []struct{ Outcome, Path string }
		}
		Facts struct {
			Service  string
			Settings []struct {
				Settings []struct{ Name, Value string }
			}
		}
	}
	text := ""
	for end := time.Now().Add(2 * time.Minute); !strings.Contains(text, `"queue-full"`); time.Sleep(10 * time.Millisecond) {
		if text = read(t, at.URL+"/status.json"); time.Now().After(end) {
			t.Fatal(text)
		}
	}
	if err := json.Unmarshal([]byte(text), &figures); err != nil {
		t.Fatal(err)
	}
	if figures.Facts.Service != "shop" || fmt.Sprint(figures.Facts.Settings[0].Settings[0]) != "{ConcurrencyLimit 1}" ||
		!strings.Contains(text, `"/refused"`) || strings.Contains(text, "secret") || strings.Contains(text, "/health") {
		t.Error(text)
	}
	close(leave)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

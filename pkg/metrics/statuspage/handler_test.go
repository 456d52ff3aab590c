package statuspage

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

func fetch(p *Page, method, path, host string, header http.Header) *http.Response {
	r := httptest.NewRequest(method, path, nil)
	r.Host = host
	for k, v := range header {
		r.Header[k] = v
	}
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	return w.Result()
}

func body(t *testing.T, r *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func closedPage(t *testing.T) *Page {
	p := newPage(newStage(t, nil), nil)
	p.Close()
	return p
}

func TestOnlyLoopbackHostNamesAreServed(t *testing.T) {
	p := closedPage(t)
	for host, want := range map[string]int{
		"127.0.0.1": 200, "127.0.0.1:8023": 200, "localhost:9999": 200, "LOCALHOST": 200, "[::1]:8023": 200, "[::1]": 200,
		"": 421, "evil.example": 421, "evil.example:8023": 421, "localhost.evil.example": 421, "127.0.0.1.evil.example:8023": 421,
		"10.0.0.1:8023": 421, "0.0.0.0:8023": 421, "localhost:8023:1": 421, "evil.example:localhost": 421, "user@localhost": 421,
	} {
		for _, path := range []string{"/", "/page.js", "/status.json"} {
			if got := fetch(p, "GET", path, host, nil); got.StatusCode != want || want != 200 && strings.Contains(body(t, got), "clock") {
				t.Errorf("Host %q, %s: %d, want %d", host, path, got.StatusCode, want)
			}
		}
	}
}

func TestTheStatusPageRejectsRequestsFromOtherSites(t *testing.T) {
	p := closedPage(t)
	for site, want := range map[string]int{"cross-site": 403, "same-site": 403, "same-origin": 200, "none": 200} {
		for _, path := range []string{"/status.json", "/events"} {
			if got := fetch(p, "GET", path, "localhost", http.Header{"Sec-Fetch-Site": {site}}).StatusCode; got != want {
				t.Errorf("%s from %s: %d, want %d", path, site, got, want)
			}
		}
	}
}

func TestMethodsOtherThanGetAndHeadAreRejectedAndHeadHasNoBody(t *testing.T) {
	p := closedPage(t)
	for _, path := range []string{"/", "/events", "/status.json", "/icon.svg"} {
		for _, method := range []string{"POST", "PUT", "DELETE", "OPTIONS", "get"} {
			if got := fetch(p, method, path, "localhost", nil); got.StatusCode != 405 || got.Header.Get("Allow") != "GET, HEAD" {
				t.Errorf("%s %s: %d", method, path, got.StatusCode)
			}
		}
		get, head := fetch(p, "GET", path, "localhost", nil), fetch(p, "HEAD", path, "localhost", nil)
		if head.StatusCode != 200 || body(t, head) != "" || head.Header.Get("Content-Type") != get.Header.Get("Content-Type") {
			t.Errorf("HEAD %s: %d, %v", path, head.StatusCode, head.Header)
		}
	}
}

func TestEveryResponseForbidsForeignScriptsStylesAndRequests(t *testing.T) {
	p := closedPage(t)
	for _, path := range []string{"/", "/page.css", "/status.json", "/events", "/nowhere"} {
		h := fetch(p, "GET", path, "localhost", nil).Header
		csp := h.Get("Content-Security-Policy")
		if !strings.HasPrefix(csp, "default-src 'none';") || strings.Contains(csp, "unsafe") || strings.Contains(csp, "*") || !strings.Contains(csp, "frame-ancestors 'none'") {
			t.Errorf("%s: policy %q", path, csp)
		}
		if h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Cross-Origin-Resource-Policy") != "same-origin" || h.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: %v", path, h)
		}
	}
}

func TestThePageIsCachedPrivatelyAndNotSentTwice(t *testing.T) {
	p := closedPage(t)
	for path, a := range assets() {
		got := fetch(p, "GET", path, "localhost", nil)
		if got.StatusCode != 200 || body(t, got) != a.text || got.Header.Get("Content-Type") != a.kind || a.kind == "" {
			t.Errorf("%s: %d, %v", path, got.StatusCode, got.Header)
		}
		again := fetch(p, "GET", path, "localhost", http.Header{"If-None-Match": {got.Header.Get("ETag")}})
		if again.StatusCode != 304 {
			t.Errorf("%s again: %d", path, again.StatusCode)
		}
		// The assets must not use resources that the Content-Security-Policy forbids,
		// because a browser blocks them without a visible error. The XML namespace looks
		// like an address, but a browser does not load it.
		text := strings.ReplaceAll(a.text, `xmlns="http://www.w3.org/2000/svg"`, "")
		if bad := regexp.MustCompile(`https?://|@import|url\(|<style|style="|\son[a-z]+="|<script>|\.innerHTML|insertAdjacentHTML|eval\(`).FindString(text); bad != "" {
			t.Errorf("%s has %q", path, bad)
		}
		for _, link := range regexp.MustCompile(`(?:(?:src|href)="|from '\./)([^"'#][^"']*)["']`).FindAllStringSubmatch(text, -1) {
			if _, known := assets()["/"+link[1]]; !known && link[1] != "status.json" {
				t.Errorf("%s refers to %s", path, link[1])
			}
		}
	}
}

func TestEveryElementThatTheScriptUsesExists(t *testing.T) {
	found := 0
	index := assets()["/"].text
	for path, a := range assets() {
		if !strings.HasSuffix(path, ".js") {
			continue
		}
		for _, id := range regexp.MustCompile(`(?:\$|put|say|getElementById)\('([a-z0-9-]+)'[,)]|^\s+'(chart-[a-z]+)'`).FindAllStringSubmatch(a.text, -1) {
			found++
			if id := id[1] + id[2]; !strings.Contains(index, `id="`+id+`"`) {
				t.Errorf("there is no element %q", id)
			}
		}
	}
	if found < 40 {
		t.Errorf("only %d elements were looked for", found)
	}
}

func TestStatusJSONIsTheWholeMessage(t *testing.T) {
	got := fetch(closedPage(t), "GET", "/status.json", "localhost", nil)
	var m message
	if err := json.Unmarshal([]byte(body(t, got)), &m); err != nil || m.Facts == nil || m.Seconds.Heat == nil || m.Errors == nil || m.Errors.List == nil {
		t.Errorf("%v: %+v", err, m)
	}
	if got.Header.Get("Content-Type") != "application/json" || got.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("%v", got.Header)
	}
}

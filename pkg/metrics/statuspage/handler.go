package statuspage

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io"
	"maps"
	"net"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
)

//go:embed assets
var files embed.FS

type asset struct{ kind, text string }

var kinds = map[string]string{
	".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8",
	".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml",
}

// assets has the files of the page by path.
var assets = sync.OnceValue(func() map[string]asset {
	entries, err := files.ReadDir("assets")
	if err != nil {
		panic("BUG: the assets of the status page: " + err.Error())
	}
	all := make(map[string]asset, len(entries))
	for _, e := range entries {
		text, err := files.ReadFile("assets/" + e.Name())
		if err != nil {
			panic("BUG: the assets of the status page: " + err.Error())
		}
		all["/"+strings.TrimSuffix(e.Name(), "index.html")] = asset{kinds[path.Ext(e.Name())], string(text)}
	}
	return all
})

// pageVersion is a hash of all assets.
var pageVersion = sync.OnceValue(func() string {
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(assets())) {
		_, _ = io.WriteString(sum, assets()[name].text)
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
})

// policy allows the page to load only its own files.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// ServeHTTP serves the page, its stream of events (/events) and a single full
// message (/status.json). Host names other than loopback get 421, to prevent DNS
// rebinding.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	switch {
	case !isLoopbackName(r.Host):
		http.Error(w, "this page is at 127.0.0.1 and localhost only", http.StatusMisdirectedRequest)
		return
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		h.Set("Allow", "GET, HEAD")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	}
	switch name := r.URL.Path; name {
	case "/events", "/status.json":
		if !isOwnFetch(r) {
			http.Error(w, "not for other sites", http.StatusForbidden)
			return
		}
		p.serveFigures(w, r)
	default:
		a, ok := assets()[name]
		if !ok {
			http.NotFound(w, r)
			return
		}
		h.Set("Content-Type", a.kind)
		h.Set("Cache-Control", "no-cache")
		h.Set("ETag", `"`+pageVersion()+`"`)
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(a.text))
	}
}

func (p *Page) serveFigures(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/status.json":
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		if r.Method == http.MethodGet {
			_, _ = w.Write(append(p.message(true, new(sent)), '\n'))
		}
	case r.Method == http.MethodHead:
		w.Header().Set("Content-Type", "text/event-stream")
	default:
		p.stream(w, r)
	}
}

// isLoopbackName reports whether host is a loopback name or address. It ignores the
// port, because a port that is forwarded to the page can have another number.
func isLoopbackName(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return host == "127.0.0.1" || host == "::1" || host == "[::1]" || strings.EqualFold(host, "localhost")
}

// isOwnFetch returns false if a page of another site caused the request. Only browsers
// send the header field Sec-Fetch-Site, so a request without this field is accepted.
func isOwnFetch(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return site == "" || site == "same-origin" || site == "none"
}

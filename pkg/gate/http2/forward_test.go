package http2

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"strings"
	"testing"

	"github.com/queuegate/queuegate/pkg/gate"
)

func TestRequestsGoOutInTheProtocolOfTheContainer(t *testing.T) {
	for _, c := range []struct {
		name     string
		speaks   speaks
		protocol Protocol
		want     string
	}{
		{"h2c is found out", bothProtocols, Auto, "HTTP/2.0"},
		{"HTTP/1.1 is found out", onlyHTTP1, Auto, "HTTP/1.1"},
		{"h2c by setting", onlyH2C, H2C, "HTTP/2.0"},
		{"HTTP/1.1 by setting", bothProtocols, HTTP1, "HTTP/1.1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			seen := make(chan string, 1)
			up := startContainer(t, c.speaks, func(w http.ResponseWriter, r *http.Request) {
				if r.Method == "PRI" {
					return // the look
				}
				body, _ := io.ReadAll(r.Body)
				seen <- fmt.Sprintf("%s %s %s %s", r.Proto, r.Method, r.RequestURI, body)
			})
			r := newRig(t, up, func(_ *gate.Config, h *Config) { h.Protocol = c.protocol })
			for range 3 {
				res, _ := r.do("POST", "/a//b/../%2F?x=1;y&&z=?", "hello")
				if res.StatusCode != 200 || res.Header.Get("K-Gate-Outcome") != "" {
					t.Errorf("answer %d %v", res.StatusCode, res.Header)
				}
				if got, want := <-seen, c.want+" POST /a//b/../%2F?x=1;y&&z=? hello"; got != want {
					t.Errorf("the container saw %q, want %q", got, want)
				}
			}
			if got := up.accepted(); got > 2 {
				t.Errorf("%d connections for three requests and one look", got)
			}
		})
	}
}

func TestFieldsThatTheContainerGets(t *testing.T) {
	for _, s := range []speaks{bothProtocols, onlyHTTP1} {
		var got http.Header
		var host string
		up := startContainer(t, s, func(w http.ResponseWriter, r *http.Request) { got, host = r.Header, r.Host })
		r := newRig(t, up)
		r.do("GET", "/", "",
			"K-Original-Host", "app.example.com", "Knative-Serving-Namespace", "ns", "Knative-Serving-Revision", "rev",
			"Proxy-Authorization", "secret", "X-Forwarded-For", "192.0.2.1", "X-Forwarded-For", "2001:db8::1",
			"X-Forwarded-Proto", "https", "Te", "trailers", "X-Twice", "1", "X-Twice", "2", "X-Empty", "",
			"Cookie", "a=1; b=2", "K-Network-Probe", "other", "User-Agent", "", "K-Gate-Outcome", "forged")
		if host != "app.example.com" {
			t.Errorf("host %q", host)
		}
		want := http.Header{
			"X-Forwarded-For":   {"192.0.2.1, 2001:db8::1, 127.0.0.1"},
			"X-Forwarded-Proto": {"https"},
			"Forwarded":         {`for=192.0.2.1;proto=https, for="[2001:db8::1]"`},
			"Te":                {"trailers"}, "X-Twice": {"1", "2"}, "X-Empty": {""}, "Cookie": {"a=1; b=2"}, "K-Network-Probe": {"other"},
		}
		if !maps.EqualFunc(got, want, slices.Equal) {
			t.Errorf("fields %v\nwant   %v", got, want)
		}
	}
}

func TestHostsThatAreNone(t *testing.T) {
	up := startContainer(t, bothProtocols, func(http.ResponseWriter, *http.Request) { t.Error("forwarded") })
	r := newRig(t, up)
	for _, host := range []string{"a b", "a/b", "[::1", "a:b"} {
		if res, _ := r.do("GET", "/", "", "K-Original-Host", host); res.StatusCode != 400 {
			t.Errorf("K-Original-Host %q: %d", host, res.StatusCode)
		}
	}
	if res, _ := r.do("CONNECT", "", ""); res.StatusCode != 405 {
		t.Errorf("CONNECT: %d", res.StatusCode)
	}
	for method, want := range map[string]int{"OPTIONS": 200, "GET": 400} {
		req := r.request(method, "/", nil)
		req.URL.Opaque = "*"
		res, err := r.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if _ = res.Body.Close(); res.StatusCode != want {
			t.Errorf("%s *: %d", method, res.StatusCode)
		}
	}
}

func TestAnswersGoOnAsTheContainerMadeThem(t *testing.T) {
	for _, s := range []speaks{bothProtocols, onlyHTTP1} {
		up := startContainer(t, s, func(w http.ResponseWriter, r *http.Request) {
			h := w.Header()
			h["Date"] = nil
			switch r.URL.Path {
			case "/fields":
				h.Set("X-Odd", "a, b")
				h["X-Twice"] = []string{"1", "2"}
				h.Set("K-Gate-Outcome", "forged")
				h.Set("Keep-Alive", "timeout=5")
				h["Content-Type"] = nil
				w.WriteHeader(299)
				_, _ = w.Write([]byte("<html>"))
			case "/none":
				w.WriteHeader(204)
			case "/unchanged":
				h.Set("Content-Length", "42")
				w.WriteHeader(304)
			case "/large":
				for range 100 {
					_, _ = w.Write(bytes.Repeat([]byte("0123456789"), 1000))
				}
			}
		})
		r := newRig(t, up)
		res, body := r.do("GET", "/fields", "")
		if res.Header.Get("Date") == "" {
			t.Error("no Date")
		}
		delete(res.Header, "Date")
		if want := (http.Header{"X-Odd": {"a, b"}, "X-Twice": {"1", "2"}, "Content-Length": {"6"}}); res.StatusCode != 299 || body != "<html>" ||
			!maps.EqualFunc(res.Header, want, slices.Equal) {
			t.Errorf("%d %v %q, want 299 %v", res.StatusCode, res.Header, body, want)
		}
		if res, body := r.do("GET", "/none", ""); res.StatusCode != 204 || body != "" || res.Header.Get("Content-Length") != "" {
			t.Errorf("%d %v %q", res.StatusCode, res.Header, body)
		}
		// Its body is not read: the client of the library misses one there.
		if res, err := r.client.Do(r.request("GET", "/unchanged", nil)); err != nil || res.StatusCode != 304 || s == bothProtocols && res.Header.Get("Content-Length") != "42" {
			t.Errorf("%v, %v", res, err)
		}
		if res, body := r.do("HEAD", "/fields", ""); res.StatusCode != 299 || body != "" {
			t.Errorf("%d %v %q", res.StatusCode, res.Header, body)
		}
		if _, body := r.do("GET", "/large", ""); len(body) != 1_000_000 {
			t.Errorf("%d bytes", len(body))
		}
	}
}

func TestTrailersGoBothWays(t *testing.T) {
	for _, s := range []speaks{bothProtocols, onlyHTTP1} {
		up := startContainer(t, s, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Trailer", "X-Announced")
			_, _ = io.Copy(w, r.Body)
			w.Header().Set("X-Announced", r.Trailer.Get("X-Checksum"))
			w.Header().Set(http.TrailerPrefix+"X-Late", "late")
			w.Header().Set(http.TrailerPrefix+"K-Gate-Outcome", "forged")
		})
		r := newRig(t, up)
		req := r.request("POST", "/", io.MultiReader(strings.NewReader("body")))
		req.Trailer = http.Header{"X-Checksum": {"42"}}
		res, err := r.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		if err != nil || string(body) != "body" {
			t.Errorf("%q, %v", body, err)
		}
		if want := (http.Header{"X-Announced": {"42"}, "X-Late": {"late"}}); !maps.EqualFunc(res.Trailer, want, slices.Equal) {
			t.Errorf("trailers %v, want %v", res.Trailer, want)
		}
	}
}

func TestATrailersOnlyAnswerStaysOne(t *testing.T) {
	up := startContainer(t, bothProtocols, func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Type", "application/grpc")
		h["Content-Length"] = nil
		h.Set("Grpc-Status", "5")
		w.WriteHeader(200)
	})
	res, _ := newRig(t, up).call()
	if res.Header.Get("Grpc-Status") != "5" || res.ContentLength != 0 || res.Header["Content-Length"] != nil || len(res.Trailer) != 0 {
		t.Errorf("head %v, length %d, trailers %v", res.Header, res.ContentLength, res.Trailer)
	}
}

func TestBothDirectionsStreamAtOnce(t *testing.T) {
	for _, s := range []speaks{bothProtocols, onlyHTTP1} {
		up := startContainer(t, s, func(w http.ResponseWriter, r *http.Request) {
			c := http.NewResponseController(w)
			_ = c.EnableFullDuplex()
			w.WriteHeader(200)
			_ = c.Flush()
			buf := make([]byte, 100)
			for {
				n, err := r.Body.Read(buf)
				_, _ = w.Write(buf[:n])
				_ = c.Flush()
				if err != nil {
					return
				}
			}
		})
		r := newRig(t, up)
		out, in := io.Pipe()
		res, err := r.client.Do(r.request("POST", "/", out))
		if err != nil {
			t.Fatal(err)
		}
		for i := range 20 {
			message := fmt.Sprintf("message %d", i)
			if _, err := in.Write([]byte(message)); err != nil {
				t.Fatal(err)
			}
			got := make([]byte, len(message))
			if _, err := io.ReadFull(res.Body, got); err != nil || string(got) != message {
				t.Fatalf("%q, %v", got, err)
			}
		}
		_ = in.Close()
		if rest, err := io.ReadAll(res.Body); err != nil || len(rest) > 0 {
			t.Errorf("%q, %v", rest, err)
		}
		_ = res.Body.Close()
	}
}

func TestInterimAnswersGoOnInOrder(t *testing.T) {
	for _, s := range []speaks{bothProtocols, onlyHTTP1} {
		up := startContainer(t, s, func(w http.ResponseWriter, r *http.Request) {
			for i := range 3 {
				w.Header().Set("Link", fmt.Sprint(i))
				w.WriteHeader(http.StatusEarlyHints)
			}
			w.Header().Del("Link")
			w.WriteHeader(201)
		})
		r := newRig(t, up)
		var said []string
		req := r.request("GET", "/", nil)
		req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
			Got1xxResponse: func(status int, h textproto.MIMEHeader) error {
				said = append(said, fmt.Sprint(status, h["Link"]))
				return nil
			},
		}))
		res, err := r.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if want := []string{"103 [0]", "103 [1]", "103 [2]"}; res.StatusCode != 201 || !slices.Equal(said, want) || res.Header.Get("Link") != "" {
			t.Errorf("%v then %d %v, want %v", said, res.StatusCode, res.Header, want)
		}
	}
}

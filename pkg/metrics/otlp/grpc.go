package otlp

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// grpcSender makes one unary call per message, in clear text for http and over
// TLS for https.
type grpcSender struct {
	url    *url.URL
	client client
}

func newGRPC(u *url.URL, method string) *grpcSender {
	call := *u
	call.Path, call.RawPath, call.RawQuery = method, "", ""
	p := new(http.Protocols)
	if u.Scheme == "http" {
		p.SetUnencryptedHTTP2(true)
	} else {
		p.SetHTTP2(true)
	}
	return &grpcSender{url: &call, client: client{protocols: p}}
}

// Frames begin with a byte for compression and four for the length.
const grpcPrefix = 5

// Send is part of Sender.
func (g *grpcSender) Send(ctx context.Context, message []byte) ([]byte, error) {
	var prefix [grpcPrefix]byte
	binary.BigEndian.PutUint32(prefix[1:], uint32(len(message)))
	frame := func() (io.ReadCloser, error) {
		return io.NopCloser(io.MultiReader(bytes.NewReader(prefix[:]), bytes.NewReader(message))), nil
	}
	r := newRequest(ctx, g.url, http.Header{
		"Content-Type": {"application/grpc+proto"}, "Te": {"trailers"}, "User-Agent": {userAgent},
	})
	r.GetBody, r.ContentLength = frame, int64(grpcPrefix+len(message))
	r.Body, _ = frame()
	answer, body, err := g.client.do(r)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		return nil, httpStatus(answer)
	}
	if err := grpcStatus(answer); err != nil {
		return nil, err
	}
	return unframe(body)
}

// Close is part of Sender.
func (g *grpcSender) Close() { g.client.close() }

// Statuses of gRPC that the OTLP specification lets a sender try again after.
// RESOURCE_EXHAUSTED is one only together with a delay that net/http does not
// decode; it is taken as final.
var grpcTemporary = map[int]bool{1: true, 4: true, 10: true, 11: true, 14: true, 15: true}

// grpcStatus reads the status from the trailers, or from the head of an answer
// that has nothing else.
func grpcStatus(r *http.Response) error {
	from := r.Trailer
	if from.Get("Grpc-Status") == "" {
		from = r.Header
	}
	text := from.Get("Grpc-Status")
	code, err := strconv.Atoi(text)
	switch {
	case text == "0":
		return nil
	case err != nil:
		return &StatusError{Status: "no gRPC status"}
	}
	e := &StatusError{Status: fmt.Sprintf("gRPC status %d", code), Temporary: grpcTemporary[code]}
	if said, err := url.PathUnescape(from.Get("Grpc-Message")); err == nil && said != "" {
		e.Status += ": " + shorten(said)
	}
	return e
}

func unframe(body []byte) ([]byte, error) {
	if len(body) < grpcPrefix || body[0] != 0 || uint64(binary.BigEndian.Uint32(body[1:])) != uint64(len(body)-grpcPrefix) {
		return nil, errors.New("the collector's answer is not one uncompressed gRPC message")
	}
	return body[grpcPrefix:], nil
}

// shorten makes what a collector says fit into a line of a log.
func shorten(said string) string {
	const most = 200
	if len(said) > most {
		said = said[:most]
	}
	return strings.ToValidUTF8(said, "")
}

// Package grpcgate puts the gate of package embed in front of a grpc-go server that has
// its own transport (grpc.Server.Serve). It has interceptors for unary calls and for
// streams. It is a separate module, so that only programs that use it require grpc-go.
//
// A call holds its slot until its handler has returned. A rejected call gets the gRPC
// status of its outcome. The trailer of the response then has k-gate-outcome and, if they
// apply, proxy-status and grpc-retry-pushback-ms. The sidecar sends the same fields.
//
// The platform's probes are HTTP requests, so serve them with embed.Gate.Handler on
// another port. A server that serves HTTP itself (grpc.Server.ServeHTTP) needs no
// interceptors: wrap it in embed.Gate.Handler.
package grpcgate

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/queuegate/queuegate/pkg/embed"
)

// ServerOptions returns both interceptors as options of grpc.NewServer. Chained
// interceptors of later options run only after the gate has admitted the call.
func ServerOptions(g *embed.Gate) []grpc.ServerOption {
	return []grpc.ServerOption{grpc.ChainUnaryInterceptor(Unary(g)), grpc.ChainStreamInterceptor(Stream(g))}
}

// Unary returns the interceptor for unary calls.
func Unary(g *embed.Gate) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, request any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (response any, err error) {
		slot, err := begin(ctx, g, info.FullMethod)
		if err != nil {
			return nil, statusOf(err, func(md metadata.MD) { _ = grpc.SetTrailer(ctx, md) })
		}
		returned := false
		defer func() {
			if !returned { // the handler panicked; the panic continues
				_ = slot.End(0)
			}
		}()
		response, err = next(slot.Context(), request)
		returned = true
		if endErr := slot.End(httpOK); endErr != nil {
			return nil, statusOf(endErr, func(md metadata.MD) { _ = grpc.SetTrailer(ctx, md) })
		}
		return response, err
	}
}

// Stream returns the interceptor for streams.
func Stream(g *embed.Gate) grpc.StreamServerInterceptor {
	return func(server any, s grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
		slot, err := begin(s.Context(), g, info.FullMethod)
		if err != nil {
			return statusOf(err, s.SetTrailer)
		}
		returned := false
		defer func() {
			if !returned {
				_ = slot.End(0)
			}
		}()
		if ctx := slot.Context(); ctx != s.Context() {
			s = &timed{s, ctx}
		}
		err = next(server, s)
		returned = true
		if endErr := slot.End(httpOK); endErr != nil {
			return statusOf(endErr, s.SetTrailer)
		}
		return err
	}
}

// httpOK is the HTTP status of each gRPC response.
const httpOK = 200

// timed is a server stream whose context has the gate's deadline.
type timed struct {
	grpc.ServerStream
	ctx context.Context
}

// Context implements grpc.ServerStream.
func (t *timed) Context() context.Context { return t.ctx }

func begin(ctx context.Context, g *embed.Gate, method string) (*embed.Slot, error) {
	c := embed.Call{Method: "POST", Target: method, Protocol: "HTTP/2.0", Header: func() map[string][]string { return headerOf(ctx) }}
	if p, ok := peer.FromContext(ctx); ok {
		c.Encrypted = p.AuthInfo != nil && p.AuthInfo.AuthType() == "tls"
		if a, ok := p.Addr.(*net.TCPAddr); ok {
			c.Peer = a.AddrPort()
			c.Peer = netip.AddrPortFrom(c.Peer.Addr().Unmap(), c.Peer.Port())
		}
	}
	return g.Begin(ctx, c)
}

// headerOf returns the metadata of a call. grpc-go has removed grpc-timeout from it, so
// headerOf adds that field again, with the time left until the deadline of ctx.
// embed.Config.QueueDeadlineBy may read the field.
func headerOf(ctx context.Context) metadata.MD {
	md, _ := metadata.FromIncomingContext(ctx) // a copy
	if at, ok := ctx.Deadline(); ok {
		if md == nil {
			md = metadata.MD{}
		}
		md.Set("grpc-timeout", max(time.Until(at), 0).String())
	}
	return md
}

// statusOf returns the gRPC status of a rejection, and adds the fields of the rejection
// to the trailer.
func statusOf(err error, setTrailer func(metadata.MD)) error {
	var r *embed.Rejection
	if !errors.As(err, &r) {
		return err
	}
	md := metadata.Pairs("k-gate-outcome", r.Outcome)
	if r.ProxyStatus != "" {
		md.Set("proxy-status", r.ProxyStatus)
	}
	if r.RetryAfter > 0 {
		md.Set("grpc-retry-pushback-ms", strconv.FormatInt(r.RetryAfter.Milliseconds(), 10))
	}
	setTrailer(md)
	return status.Error(codes.Code(r.GRPC), r.Message)
}

package grpcgate

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/metadata"
)

func TestTheDeadlineOfACallIsAddedAsGRPCTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs("x-tenant", "a"))
		if md := headerOf(ctx); len(md) != 1 || md.Get("x-tenant")[0] != "a" {
			t.Errorf("without a deadline %v", md)
		}
		ctx, cancel := context.WithTimeout(ctx, 1500*time.Millisecond)
		defer cancel()
		if got := headerOf(ctx).Get("grpc-timeout"); len(got) != 1 || got[0] != "1.5s" {
			t.Errorf("grpc-timeout %q", got)
		}
	})
}

package http1

import (
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/queuegate/queuegate/pkg/gate/loop"
	"github.com/queuegate/queuegate/pkg/gate/wire"
)

// noise is n bytes that repeat nowhere.
func noise(n int) string {
	rng := rand.New(rand.NewPCG(5, uint64(n)))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return string(b)
}

func TestLongBodiesGoThroughAPipeAndArriveWhole(t *testing.T) {
	for _, c := range []struct {
		name  string
		size  int
		c     pumping
		pipes int
	}{
		{"long", 5 << 20, pumping{kind: wire.BodyLength, limit: true}, 1},
		{"long, in small writes", 1 << 20, pumping{kind: wire.BodyLength, write: 3000}, 1},
		{"long, the beginning read already", 1 << 20, pumping{kind: wire.BodyLength, read: noise(70_000)}, 1},
		{"as short as a pipe pays", spliceFrom, pumping{kind: wire.BodyLength}, 1},
		{"shorter", spliceFrom - 1, pumping{kind: wire.BodyLength}, 0},
		{"without a length", 1 << 20, pumping{kind: wire.BodyUntilClose}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := noise(c.size)
			c.c.length = int64(len(c.c.read) + len(in))
			x, out, rest := pumped(t, c.c, in)
			if out != c.c.read+in || rest != "" {
				t.Errorf("%d bytes arrived of %d, %d are left over", len(out), c.c.length, len(rest))
			}
			wantSame(t, "payload", x.p.payload, c.c.length)
			if len(x.bulks.pipes) != c.pipes || x.p.pipe != nil {
				t.Errorf("%d pipes in the pool, one held: %v; want %d", len(x.bulks.pipes), x.p.pipe != nil, c.pipes)
			}
			x.bulks.trimPipes()
		})
	}
}

func TestALongBodyEndsWhereItsLengthSays(t *testing.T) {
	body, next := noise(1<<20), "GET / HTTP/1.1\r\n\r\n"
	var behind string
	x := startPump(t, func(x *pumpTrial) {
		x.p.begin(&x.src, &x.dst, nil, nil, 0, 0)
		x.p.body.Begin(wire.BodyLength, int64(len(body)))
		x.p.limit = true
		x.run()
		x.p.release(&x.bulks)
		x.bulks.trimPipes()
		x.dst.CloseWrite()
		for len(behind) < len(next) {
			var b [64]byte
			n, err := x.src.Read(b[:])
			if behind += string(b[:n]); err == loop.ErrAgain {
				x.task.Wait(0)
			} else if err != nil {
				return
			}
		}
	})
	go func() { _, _ = io.WriteString(x.in, body+next) }()
	out, err := io.ReadAll(x.out)
	x.wait(t)
	if err != nil || string(out) != body || behind != next {
		t.Errorf("%d bytes of %d arrived, %v; behind the body %q", len(out), len(body), err, behind)
	}
}

func TestALongBodyThatBreaksOffIsNotTakenAsComplete(t *testing.T) {
	in := noise(700_000)
	x, out, _ := pumped(t, pumping{kind: wire.BodyLength, length: 1 << 20}, in)
	if !errors.Is(x.p.srcErr, io.ErrUnexpectedEOF) || x.p.done {
		t.Errorf("done %v, error %v", x.p.done, x.p.srcErr)
	}
	if out != in {
		t.Errorf("%d bytes arrived of %d that came", len(out), len(in))
	}
	x.bulks.trimPipes()
}

func TestALongBodyThatNobodyTakesHoldsAtMostOnePipeFull(t *testing.T) {
	x := startPump(t, func(x *pumpTrial) {
		x.p.begin(&x.src, &x.dst, nil, nil, 0, 0)
		x.p.body.Begin(wire.BodyLength, 1<<30)
		x.run()
		x.p.release(&x.bulks)
		if n := len(x.bulks.pipes); n != 0 {
			t.Errorf("%d pipes with somebody's bytes are in the pool", n)
		}
	})
	go func() { _, _ = io.WriteString(x.in, strings.Repeat("x", 64<<20)) }()
	if _, err := io.ReadFull(x.out, make([]byte, 1<<20)); err != nil {
		t.Error(err)
	}
	_ = x.out.Close()
	x.wait(t)
	if x.p.dstErr == nil {
		t.Error("the end of the receiver went unnoticed")
	}
	if held := x.p.payload - x.p.written; held < 0 || held > 1<<20 {
		t.Errorf("%d bytes were held", held)
	}
}

package otlp

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// script is a Sender whose attempts fail with the errors in errs, one error per attempt.
// After the last error, all attempts succeed.
type script struct {
	errs []error
	at   []time.Time
}

func (s *script) Send(ctx context.Context, message []byte) ([]byte, error) {
	s.at = append(s.at, time.Now())
	if len(s.errs) == 0 {
		return message, nil
	}
	err := s.errs[0]
	s.errs = s.errs[1:]
	if errors.Is(err, context.DeadlineExceeded) { // hangs
		<-ctx.Done()
	}
	return nil, err
}

func (*script) Timeout() time.Duration { return RequestTimeout }

func (*script) Close() {}

var (
	errBroken = errors.New("broken")
	errBusy   = &StatusError{Status: "busy", Temporary: true, RetryAfter: 5 * time.Second}
	errAway   = &StatusError{Status: "away", Temporary: true, RetryAfter: time.Hour}
	errNever  = &StatusError{Status: "never"}
)

func TestADeliveryIsRetriedWithPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{errs: []error{errBroken, errBusy, errBroken}}
		if response, err := Deliver(t.Context(), s, []byte("m")); err != nil || string(response) != "m" {
			t.Fatalf("%q, %v", response, err)
		}
		want := [][2]time.Duration{{750 * time.Millisecond, 1250 * time.Millisecond}, {5 * time.Second, 5 * time.Second}, {3 * time.Second, 5 * time.Second}}
		if len(s.at) != len(want)+1 {
			t.Fatalf("%d attempts, want %d", len(s.at), len(want)+1)
		}
		for i, w := range want {
			if pause := s.at[i+1].Sub(s.at[i]); pause < w[0] || pause > w[1] {
				t.Errorf("pause %d of %v, want %v", i, pause, w)
			}
		}
	})
}

func TestADeliveryEndsAfterTheMaximumNumberOfAttempts(t *testing.T) {
	for _, c := range []struct {
		name     string
		errs     []error
		attempts int
		last     error
		longest  time.Duration
	}{
		{"after four attempts", []error{errBroken, errBroken, errBroken, errBroken}, Attempts, errBroken, 10 * time.Second},
		{"at once when it never can succeed", []error{errNever}, 1, errNever, 0},
		{"regardless of the collector's Retry-After", []error{errAway, errAway, errAway, errAway}, Attempts, errAway, 3 * longestPause},
		{"though the collector hangs", []error{context.DeadlineExceeded, context.DeadlineExceeded, context.DeadlineExceeded, context.DeadlineExceeded},
			Attempts, context.DeadlineExceeded, Attempts*RequestTimeout + 10*time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, start := &script{errs: c.errs}, time.Now()
				if _, err := Deliver(t.Context(), s, nil); !errors.Is(err, c.last) {
					t.Errorf("error %v, want %v", err, c.last)
				}
				if took := time.Since(start); len(s.at) != c.attempts || took > c.longest {
					t.Errorf("%d attempts in %v, want %d in %v", len(s.at), took, c.attempts, c.longest)
				}
			})
		})
	}
}

func TestADeliveryEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		s, start := &script{errs: []error{errBroken, errBroken}}, time.Now()
		if _, err := Deliver(ctx, s, nil); !errors.Is(err, errBroken) || time.Since(start) != 100*time.Millisecond {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

package otlp

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"google.golang.org/protobuf/proto"
)

// StatusError is a response that reports a failure.
type StatusError struct {
	Status     string
	Temporary  bool          // a retry may succeed
	RetryAfter time.Duration // delay before a retry that the collector asks for; 0 = none
}

func (e *StatusError) Error() string { return "the collector responded with " + e.Status }

// Attempts is the maximum number of attempts by Deliver.
const Attempts = 4

// The pause before a retry doubles each time, with ±25 % jitter.
const (
	firstPause   = time.Second
	longestPause = 30 * time.Second
)

// Deliver sends a message and returns the collector's response. After a temporary
// failure it waits and retries, up to Attempts attempts in total. If the last attempt
// fails, it returns the error of this attempt. If ctx ends, it makes no more attempts.
func Deliver(ctx context.Context, s Sender, message []byte) ([]byte, error) {
	pause := firstPause
	for attempt := 1; ; attempt++ {
		response, err := sendOnce(ctx, s, message)
		retry, after := temporary(err)
		if err == nil || !retry || attempt == Attempts || ctx.Err() != nil {
			return response, err
		}
		jittered := time.Duration(float64(pause) * (0.75 + rand.Float64()/2))
		if !sleep(ctx, min(max(jittered, after), longestPause)) {
			return nil, err
		}
		pause *= 2
	}
}

func sendOnce(ctx context.Context, s Sender, message []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout())
	defer cancel()
	return s.Send(ctx, message)
}

// temporary reports whether a retry may succeed after err. The result after is the delay
// before the retry that the collector asked for; 0 = none. Every error without a
// response from the collector, such as a connection error, is temporary.
func temporary(err error) (retry bool, after time.Duration) {
	var status *StatusError
	if errors.As(err, &status) {
		return status.Temporary, status.RetryAfter
	}
	return true, 0
}

// sleep returns false if ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Export encodes a message, sends it with Deliver, and decodes the collector's response.
// The parameter request is the message. The parameter response receives the decoded
// response.
func Export(ctx context.Context, s Sender, request, response proto.Message) error {
	return export(ctx, s, Deliver, request, response)
}

// ExportOnce is Export without retries.
func ExportOnce(ctx context.Context, s Sender, request, response proto.Message) error {
	return export(ctx, s, sendOnce, request, response)
}

type delivery func(context.Context, Sender, []byte) ([]byte, error)

func export(ctx context.Context, s Sender, deliver delivery, request, response proto.Message) error {
	message, err := proto.Marshal(request)
	if err != nil {
		return fmt.Errorf("encoding a message for the collector: %w", err)
	}
	body, err := deliver(ctx, s, message)
	if err != nil {
		return err
	}
	if err := proto.Unmarshal(body, response); err != nil {
		return fmt.Errorf("reading the collector's response: %w", err)
	}
	return nil
}

// Package repeat limits repeated messages in a log.
//
// The first message of a kind is logged immediately. Further ones within an interval
// are suppressed and counted; the next logged one contains the count in the field
// "repeated". So the number of lines plus all their "repeated" is the number of
// messages.
//
// zap's own sampler (zapcore.NewSamplerWithOptions) does not fit: it loses the
// number of the messages that it drops, which docs/logs.md promises; it does not
// tell loggers apart; and two texts whose hashes collide share one counter, so
// that the first message of a kind may be dropped.
//
// There is no goroutine and no timer: a count whose interval has passed is logged with
// the next message of any kind, and Sync logs all counts.
package repeat

// Package repeat limits repeated messages in a log.
//
// The first message of a kind is logged at once. Further messages of that kind are
// suppressed and counted within an interval. The next message of the kind that is
// logged has this number in the field "repeated". So the number of lines plus the sum
// of all "repeated" is the number of messages.
//
// zap's own sampler (zapcore.NewSamplerWithOptions) does not fit, for three reasons. It
// loses the number of dropped messages, which docs/logs.md promises. It does not
// distinguish loggers. Two texts with the same hash share one counter, so the first
// message of a kind may be dropped.
//
// The package needs no goroutine and no timer. When an interval has passed, the number
// of suppressed messages is logged together with the next message of any kind. Sync
// logs all such numbers at once.
package repeat

// Package repeat keeps a log readable when one thing goes wrong over and over.
//
// The first message of its kind goes out at once. Those that follow within an
// interval are held back and counted; the count goes out as the field
// "repeated" of the next one of that kind. So the lines and all their
// "repeated" together are as many as the messages were.
//
// zap's own sampler (zapcore.NewSamplerWithOptions) does not fit: it loses the
// number of the messages that it drops, which docs/logs.md promises; it does not
// tell loggers apart; and two texts whose hashes collide share one counter, so
// that the first message of a kind may be dropped.
//
// There is no goroutine and no timer: a count whose interval has passed goes
// out with whatever is logged next, and all counts do on Sync.
package repeat

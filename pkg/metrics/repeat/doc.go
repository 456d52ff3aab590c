// Package repeat limits repeated messages in a log.
//
// The first message of a kind is logged at once. Further messages of that kind within
// an interval are suppressed and counted. The next logged message of that kind has
// their number in the field "repeated".
//
// zap's sampler (zapcore.NewSamplerWithOptions) is not used, because it does not log
// the number of dropped messages, does not distinguish loggers, and may drop the
// first message of a kind after a hash collision.
//
// When an interval has passed, the number of suppressed messages is logged without the
// need for another message. The timer for this runs only while messages are suppressed.
// Sync logs all such numbers at once.
package repeat

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
// If no such message follows within the interval, the last suppressed message is logged
// at its end, with the number of the others. The timer for this is started only when a
// message is suppressed. Sync logs all pending messages at once.
package repeat

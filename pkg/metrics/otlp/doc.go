// Package otlp delivers messages to collectors: OTLP over HTTP and gRPC, and other
// protocols that POST a message. It contains the OTLP message types, but no
// OpenTelemetry SDK.
//
// It has no goroutines and timers between calls, and connects with the first message.
package otlp

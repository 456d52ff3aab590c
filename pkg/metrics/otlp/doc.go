// Package otlp delivers messages to collectors: OTLP over HTTP and gRPC, and other
// protocols that POST a message. It contains the OTLP message types, but no
// OpenTelemetry SDK.
//
// It works only while it is called: it starts no goroutine and no timer, and connects
// with the first message.
package otlp

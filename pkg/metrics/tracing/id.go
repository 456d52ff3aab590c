package tracing

// ID is the trace's id; zero for a nil Span.
func (s *Span) ID() [16]byte {
	if s == nil {
		return [16]byte{}
	}
	return s.context.TraceID
}

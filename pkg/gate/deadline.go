package gate

// Earliest returns the earlier of two instants. An instant of 0 means never.
func Earliest(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

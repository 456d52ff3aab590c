module github.com/queuegate/queuegate

go 1.26.0

require (
	go.uber.org/atomic v1.12.0
	go.uber.org/zap v1.28.0
	golang.org/x/sys v0.49.0
)

require go.uber.org/multierr v1.10.0 // indirect

module github.com/queuegate/queuegate/test/linearizable

go 1.26.0

replace github.com/queuegate/queuegate => ../..

require (
	github.com/anishathalye/porcupine v1.3.1
	github.com/queuegate/queuegate v0.0.0
	go.uber.org/atomic v1.12.0
)

require (
	golang.org/x/net v0.62.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
)

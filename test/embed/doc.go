// Package embed runs the gate inside servers of gin, echo, chi, Fiber, grpc-go and
// connect-go, with streams, upgrades, h2c and shutdown. It is a separate module, so that
// users of the packages do not download its dependencies.
package embed

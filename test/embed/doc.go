// Package embed runs the gate inside servers of gin, echo, chi, Fiber, grpc-go and
// connect-go, with their features that outlive a simple response: streams, upgrades,
// h2c and shutdown. It is a module of its own, whose dependencies users of the packages
// never see.
package embed

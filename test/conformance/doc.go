// Package conformance tests the gate with third-party software: the kubelet's probe
// packages, gRPC's interop suite, h2spec, and clients (node's http2, grpc-js, grpcio,
// curl, nghttp, h2load, Chromium). Programs that are not installed are skipped. The
// package knative, a separate module, uses the clients of Knative.
//
// The real queue binary runs in front of small servers of this process. Each case of a
// shared set is probed three times: by the kubelet, by the gate for its readiness, and by
// the kubelet through the gate's rewritten application probes. All must agree on ready or
// not ready. If the gate must decide otherwise, the field differs of the case has the
// reason.
//
// This is a separate module, so that programs with the gate's packages do not download
// its dependencies. The kubelet's packages are from Kubernetes 1.36.
//
// QUEUEGATE_BINARY=path tests a binary that is already built.
package conformance

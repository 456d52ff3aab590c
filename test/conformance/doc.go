// Package conformance tests the gate with third-party software: the kubelet's probe
// packages, gRPC's interop suite, h2spec, and clients (node's http2, grpc-js, grpcio,
// curl, nghttp, h2load, Chromium). The tests with a program that is not installed are
// skipped. The directory knative is a separate module, which uses the clients of Knative.
//
// The real queue binary runs in front of small servers in the test's process. The tests
// of probes share a table of cases (type outcome). Three probers probe each case:
//
//   - the kubelet, without the gate;
//   - the gate, for its own readiness;
//   - the kubelet, through one of the gate's rewritten application probes.
//
// All three must come to the same decision, ready or not ready. In a few cases the gate
// must decide otherwise; then the case says why.
//
// This directory is a separate module, so that programs that import the gate's packages
// do not download its dependencies. The kubelet's packages are from Kubernetes 1.36.
//
// If the environment variable QUEUEGATE_BINARY is set, the tests use the binary at this
// path and do not build one.
package conformance

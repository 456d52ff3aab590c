// Package conformance tests the gate with third-party software: the kubelet's
// probe packages, gRPC's interop suite and h2spec. The package knative in it, a
// separate module, uses the clients of Knative.
//
// The real queue binary runs in front of small servers of this process. Each
// case of a shared set is probed three times: by the kubelet itself, by the
// gate's readiness, and by the kubelet through the gate's rewritten application
// probes. All must agree on ready or not ready. If the gate is meant to decide
// otherwise, the field differs of the case gives the reason.
//
// Third-party clients are tested as well: node's http2, grpc-js, grpcio, curl,
// nghttp, h2load and Chromium must get the same from the gate as from the
// container. Clients that are not installed are skipped.
//
// This is a separate module, so that programs that use the gate's packages do
// not download its dependencies. The kubelet's packages are from Kubernetes
// 1.36.
//
// QUEUEGATE_BINARY=path tests a binary that is already built.
package conformance

// Package conformance lets judges that others wrote decide about the gate: the
// kubelet's own probe packages, gRPC's interop suite, h2spec. The package knative
// in it, a separate module, does so with the clients of Knative.
//
// The real queue binary runs in front of small targets of this process. The
// shared set of outcomes is probed three times: by the kubelet itself, by the
// gate's readiness, and by the kubelet through the gate's rewritten application
// probes. They must agree on ready or not ready. Where the gate is meant to
// decide otherwise, the case says why in its field differs.
//
// Clients that others wrote are judges as well: node's http2, grpc-js, grpcio,
// curl, nghttp, h2load and Chromium must get from the gate what they get from the
// container. Those that are not installed are left out.
//
// This is a module of its own, so that no program that uses the gate's packages
// downloads what the judges need. The kubelet's packages are those of Kubernetes
// 1.36.
//
// QUEUEGATE_BINARY=path judges a gate that is already built.
package conformance

// Image builds the container images of the gate and of the demo, without
// Docker: one OCI index each with linux/amd64 and linux/arm64, from scratch,
// with one static binary. The same sources and the same Go version make the
// same bytes.
//
// Each image goes into an archive (OCI layout in a tar file), which containerd,
// podman, skopeo and crane read, with its software bills of materials (CycloneDX)
// and its SLSA provenance as referrers and as files beside it. With -push both go to a registry.
package main

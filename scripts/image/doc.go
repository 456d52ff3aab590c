// Image builds the container images of the gate and of the demo without Docker:
// for each an OCI index with linux/amd64 and linux/arm64, from scratch, with
// one static binary. The same sources and Go version give the same bytes.
//
// Each image is written to an archive (an OCI layout in a tar file), which
// containerd, podman, skopeo and crane read. Its software bills of materials
// (CycloneDX) and its SLSA provenance are included as referrers, and written as
// files to the same directory. -push also pushes them to a registry.
package main

// Image builds the container images of the gate and of the demo without Docker. Each is
// an OCI index with linux/amd64 and linux/arm64. Each image has one static binary and
// no base image. The same sources and Go version give the same bytes.
//
// Each image is written to an archive, which is an OCI layout in a tar file.
// containerd, podman, skopeo and crane can read it. The archive also contains the
// image's software bills of materials (CycloneDX) and SLSA provenance, as referrers.
// Both are also written as files to the same directory. -push pushes the image and its
// referrers to a registry.
package main

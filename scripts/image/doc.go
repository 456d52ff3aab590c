// Image builds the container images of the gate and of the demo without Docker. Each is
// an OCI index with linux/amd64 and linux/arm64. Each image has one static binary and
// no base image. The same sources and Go version give the same bytes.
//
// Each image is written to an archive, an OCI layout in a tar file, with its software
// bills of materials (CycloneDX) and SLSA provenance as referrers. These are also
// written as separate files. -push pushes the image and its referrers to a registry.
package main

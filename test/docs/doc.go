// Package docs runs the commands of the documentation: each block that starts
// with ```sh in README.md, examples, bench, config and docs, in the order of its page, in
// a copy of the repository and a separate network namespace.
//
// A comment before a block changes how it is run:
//
//	<!-- until Ctrl-C, on PORT -->  it runs in the background from the time at which
//	                                PORT listens until the next such block or the
//	                                end of the page, and must then exit without error
//	<!-- run -->                    only test/cluster runs it, in a cluster
//	<!-- not run: REASON -->        it is never run
//
// Blocks that are not run here must be valid scripts, and the commands, flags and make
// targets of this repository that they use must exist.
package docs

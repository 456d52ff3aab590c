// Package docs runs the commands of the documentation. These are the blocks that start
// with ```sh in the Markdown pages of the root folder, docs and examples, and in the
// README.md of bench and config. The blocks of a page run in their order on the page. All
// blocks run in a copy of the repository, and in a separate network namespace.
//
// A comment before a block changes how the block is run:
//
//	<!-- until Ctrl-C, on PORT -->  The block runs in the background. The next block
//	                                starts when a program listens on PORT. The test
//	                                sends Ctrl-C before the next block with this
//	                                comment, or at the end of the page. The block must
//	                                then exit without an error.
//	<!-- run -->                    Only test/cluster runs the block, in a cluster.
//	<!-- not run: REASON -->        The block is never run.
//
// A block that is not run here must be a valid script. If it uses commands, flags or make
// targets of this repository, these must exist.
package docs

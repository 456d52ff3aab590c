// Package docs runs the commands of the documentation: each block that starts
// with ```sh in README.md, examples, bench, config and docs, in the order of its page, in
// a copy of the repository and a network of its own.
//
// A comment before a block says what else is to be done with it:
//
//	<!-- until Ctrl-C, on PORT -->  it runs on while the blocks after it do, from
//	                                when PORT listens to the next such block or
//	                                the end of the page, and ends well
//	<!-- run -->                    test/cluster runs it, in a cluster
//	<!-- not run: REASON -->        nothing does
//
// What is not run here has its syntax checked, and that the commands, flags and
// make targets of this repository that it names are there.
package docs

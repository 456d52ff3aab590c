// Package report turns the record of a run into what people read: Markdown,
// one self-contained HTML page with pictures, the table of README.md, and a
// verdict on each goal.
//
// All numbers are medians over the rounds, with the quartiles as their spread.
// "direct", the load without a proxy, and "queuegate" have places and colours
// of their own; ratios are to the target "haproxy".
package report

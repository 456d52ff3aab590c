// Package repeat keeps a log readable when one thing goes wrong over and over.
//
// The first message of its kind goes out at once. Those that follow within an
// interval are held back and counted; the count goes out as the field
// "repeated" of the next one of that kind. So the lines and all their
// "repeated" together are as many as the messages were.
//
// There is no goroutine and no timer: a count whose interval has passed goes
// out with whatever is logged next, and all counts do on Sync.
package repeat

// Package core is the part of an embedded gate that does not depend on a server: the
// shared gate, counting and the drain. Packages embed, fast and status use it.
package core

// Package core is the part of an embedded gate that does not depend on a server: the
// shared gate, counting and the drain. Packages embed, fast and status use it. Other
// modules cannot import it, so its API may change in any version.
package core

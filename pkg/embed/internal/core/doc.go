// Package core is the part of an embedded gate that does not depend on a server: the
// shared gate, counting and the drain. Package embed, fast and status use it;
// programs cannot, so none of it is promised.
package core

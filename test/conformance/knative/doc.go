// Package knative tests the gate with code of Knative that connects to it: the
// prober of the activator and the autoscaler, the status prober of ingress
// controllers, and the autoscaler's scraper and collector.
//
// The real queue binary runs in front of small servers of this process. The
// packages of the activator and the autoscaler need informers. The tests therefore
// copy the options of their probes, and pass them to the prober that both use.
//
// The same tests compile against each minor version of Knative Serving. The file go.mod
// requires the newest version. The folder versions has another go.mod and go.sum for each
// earlier version, which are used like this:
//
//	go test -modfile=versions/1.15.mod .
//
// These tests are not in the same module as other tests, because each version of Knative
// requires another version of Kubernetes' libraries. `make minors` runs the tests against
// the earlier versions. `make minors-tidy` updates all these go.mod files after a change
// of dependencies. A table in docs/knative.md lists the versions, and
// TestTheDocsListTheTestedMinorVersionsOfKnative compares that table with the go.mod
// files.
//
// The newest module, v0.51.0, requires versions of knative.dev/networking and
// knative.dev/pkg that the public module proxy does not serve. A replace directive in
// go.mod selects the versions that v0.50.0 requires.
//
// If QUEUEGATE_BINARY has the path of a gate, that gate is tested instead of a new build.
package knative

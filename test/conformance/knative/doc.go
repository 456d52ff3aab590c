// Package knative tests the gate with code of Knative that connects to it: the
// prober of the activator and the autoscaler, the status prober of ingress
// controllers, and the autoscaler's scraper and collector.
//
// The real queue binary runs in front of small servers of this process. The
// activator's and the autoscaler's own packages need informers, so the tests
// copy their options and pass them to the prober that both use.
//
// The same tests compile against each minor version of Knative Serving. go.mod
// has the newest one; versions has a go.mod and go.sum for each earlier one:
//
//	go test -modfile=versions/1.15.mod .
//
// They are separate from the modules of the other suites because each version of Knative
// requires another version of Kubernetes' libraries. `make minors` tests the earlier
// versions, `make minors-tidy` updates their go.mod after a change of dependencies.
// docs/knative.md lists all versions; TestTheTableListsTheTestedMinorVersions compares.
//
// The newest module, v0.51.0, requires versions of knative.dev/networking and
// knative.dev/pkg that the public module proxy does not serve. go.mod replaces
// them by those of v0.50.0.
//
// QUEUEGATE_BINARY=path tests a gate that is already built.
package knative

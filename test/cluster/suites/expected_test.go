package suites

// expected are the tests of Knative's suites that do not pass here, with the
// reason. Each other has to.
var expected = map[string]string{
	"TestContainerErrorMsg":           "skips itself: it wants a registry that says that it has no such image",
	"TestDomainMapping":               "the small ingress of these tests does not follow a Service that is an external name",
	"TestEgressTraffic":               "asks www.google.com, and the node has no way out",
	"TestHelloHTTP2WithEmptyPortName": "skips itself: Knative has no HTTP/2 without a port name (knative/serving issue 4283)",
}

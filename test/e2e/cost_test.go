package e2e

import "testing"

// costGate is a gate without a concurrency limit and with a limit of 100 units.
type costGate struct {
	*gate
	page string
}

func startCost(t *testing.T, k *container) costGate {
	t.Helper()
	g, _, page := startObservedGate(t, k, "CONTAINER_CONCURRENCY=0", "QUEUE_COST_BY=header:X-Tokens", "QUEUE_COST_LIMIT=100")
	return costGate{g, page}
}

func (g costGate) reports(name string, want float64) {
	g.t.Helper()
	eventually(g.t, name, func() bool { return figures(g.gate, g.page)[name] == want })
}

// admittedWith sends a GET with these fields, and waits until the container has received
// it. It returns the connection of the client and the connection of the container.
func admittedWith(t *testing.T, k *container, g *gate, path string, fields ...string) (*client, *peer) {
	t.Helper()
	c := dial(t, g)
	c.send(request("GET", path, fields...))
	return c, k.acceptFor(path)
}

func TestARequestWaitsUntilTheUnitsOfItsCostAreFree(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startCost(t, k)
	a, atA := admittedWith(t, k, g.gate, "/a", "X-Tokens: 60")
	b, atB := admittedWith(t, k, g.gate, "/b", "X-Tokens: 40")
	large := queuedWith(t, g.gate, "/large", "X-Tokens: 100")
	small := queuedWith(t, g.gate, "/small", "X-Tokens: 1") // behind the large request
	finish(b, atB)
	g.reports("queuegate_cost_units", 60)
	g.reports("kn_serving_queue_depth", 2)
	finish(a, atA)
	atLarge := k.acceptFor("/large")
	g.reports("queuegate_cost_units", 100)
	g.reports("queuegate_cost_limit", 100)
	finish(large, atLarge)
	finish(small, k.acceptFor("/small"))
	g.reports("queuegate_cost_units", 0)
}

func TestARequestThatCostsMoreThanTheLimitIsServedAlone(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startCost(t, k)
	a, atA := admittedWith(t, k, g.gate, "/a", "X-Tokens: 1")
	huge := queuedWith(t, g.gate, "/huge", "X-Tokens: 100000000000000000000")
	finish(a, atA)
	atHuge := k.acceptFor("/huge")
	next := queuedWith(t, g.gate, "/next", "X-Tokens: 1")
	finish(huge, atHuge)
	finish(next, k.acceptFor("/next"))
}

func TestACancelledRequestReturnsItsUnits(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startCost(t, k)
	a, _ := admittedWith(t, k, g.gate, "/a", "X-Tokens: 100")
	large := queuedWith(t, g.gate, "/large", "X-Tokens: 100")
	small := queuedWith(t, g.gate, "/small", "X-Tokens: 10")
	large.close()
	g.reports("kn_serving_queue_depth", 1)
	a.close()
	finish(small, k.acceptFor("/small"))
	g.reports("queuegate_cost_units", 0)
}

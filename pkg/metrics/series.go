package metrics

import (
	"strconv"
	"sync"

	"go.uber.org/atomic"

	"github.com/queuegate/queuegate/pkg/gate"
)

// seriesKey packs the values of Knative's labels into 22 bits: status code (10 bits),
// route tag (5), method (4) and protocol (3).
type seriesKey uint32

const (
	tagShift      = 10
	methodShift   = tagShift + 5
	protocolShift = methodShift + 4

	codeKey    seriesKey = 1<<tagShift - 1 // masks
	tagCodeKey seriesKey = 1<<methodShift - 1
	wholeKey   seriesKey = 1<<(protocolShift+3) - 1
)

// Each status code from firstCode to lastCode has its own value. All others are
// otherCode.
const (
	firstCode = 100
	lastCode  = 599
	otherCode = lastCode + 1
)

// protocols are the schemes and versions of HTTP. The first element means any protocol.
var protocols = [...]struct{ scheme, name, version string }{
	{}, {"http", "http", "1.0"}, {"http", "http", "1.1"}, {"http", "http", "2.0"},
	{"https", "http", "1.0"}, {"https", "http", "1.1"}, {"https", "http", "2.0"},
}

func keyOf(x *gate.Record, tag routeTag) seriesKey {
	code := x.Status
	if code < firstCode || code > lastCode {
		code = otherCode
	}
	protocol := 1
	switch x.Protocol {
	case "HTTP/1.1":
		protocol = 2
	case "HTTP/2.0":
		protocol = 3
	}
	if x.Encrypted {
		protocol += 3
	}
	return seriesKey(code) | seriesKey(tag)<<tagShift | seriesKey(x.MethodIndex())<<methodShift | seriesKey(protocol)<<protocolShift
}

// overflowKey returns the key under which a request is counted when there are too many
// series. It contains only the status code.
func (k seriesKey) overflowKey() seriesKey { return k&codeKey | seriesKey(otherTag)<<tagShift }

func (k seriesKey) code() int     { return int(k & codeKey) }
func (k seriesKey) tag() routeTag { return routeTag(k & tagCodeKey >> tagShift) }
func (k seriesKey) method() string {
	return gate.Methods[k>>methodShift&(1<<(protocolShift-methodShift)-1)]
}

func (k seriesKey) codeText() string {
	if k.code() == otherCode {
		return "other"
	}
	return strconv.Itoa(k.code())
}

// class returns an index of classNames.
func (k seriesKey) class() int { return k.code()/100 - 1 }

var classNames = [...]string{"1xx", "2xx", "3xx", "4xx", "5xx", "other"}

// series has the histograms of the requests with the same labels.
type series struct {
	key    seriesKey
	server *histogram // time from the arrival of the request to its end
	// invocation is the time from the first byte sent to the container to the end of the
	// request.
	invocation *histogram
	// client has the values of http_client_request_duration_seconds: the time from the
	// first byte sent to the container to the head of the response. Without a response,
	// it is the time to the end of the request.
	client   *histogram
	request  *histogram // bytes of the request body
	response *histogram // bytes of the response body
}

// Limits of a seriesTable. Once a table has maxSeries series, a request with new labels
// is counted by its status code only. For this there are at most 501 additional series:
// one for each code from 100 to 599, and one for all other codes. So the table is never
// full.
const (
	maxSeries = 256
	tableBits = 11
)

// seriesTable is a hash table with open addressing. A series is never removed. The zero
// value is ready.
type seriesTable struct {
	slots [1 << tableBits]atomic.Pointer[series]

	adding sync.Mutex
	// count is the number of series that count towards maxSeries. It changes only while
	// the mutex adding is locked.
	count atomic.Int32
}

// get returns the series that counts the requests with the key k. If the table has no
// such series yet, get allocates one. But once the table has maxSeries series, a new key
// is replaced by k.overflowKey(), which contains only the status code.
func (t *seriesTable) get(k seriesKey) *series {
	s, _ := t.find(k)
	if s != nil {
		return s
	}
	if k != k.overflowKey() && t.count.Load() >= maxSeries {
		return t.get(k.overflowKey())
	}
	return t.add(k)
}

// find returns the series of k, or the free slot for k.
func (t *seriesTable) find(k seriesKey) (*series, *atomic.Pointer[series]) {
	// Fibonacci hashing: the multiplier is 2^32 divided by the golden ratio.
	for i := uint32(k) * 0x9e3779b1 >> (32 - tableBits); ; i = (i + 1) % uint32(len(t.slots)) {
		s := t.slots[i].Load()
		if s == nil {
			return nil, &t.slots[i]
		}
		if s.key == k {
			return s, nil
		}
	}
}

func (t *seriesTable) add(k seriesKey) *series {
	t.adding.Lock()
	defer t.adding.Unlock()
	s, slot := t.find(k)
	if s != nil {
		return s
	}
	if k != k.overflowKey() && t.count.Inc() > maxSeries {
		t.count.Dec()
		k = k.overflowKey()
		if s, slot = t.find(k); s != nil {
			return s
		}
	}
	s = &series{
		key: k, server: newHistogram(durations), invocation: newHistogram(durations), client: newHistogram(durations),
		request: newHistogram(sizes), response: newHistogram(sizes),
	}
	slot.Store(s)
	return s
}

func (t *seriesTable) each(yield func(*series)) {
	for i := range t.slots {
		if s := t.slots[i].Load(); s != nil {
			yield(s)
		}
	}
}

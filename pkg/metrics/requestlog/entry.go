package requestlog

import (
	"net/netip"
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
)

// Result is what a line contains about the end of a request.
type Result struct {
	// Status is the status that was sent to the client. If none could be sent, it is the
	// status of the outcome, such as 499 if the client disconnected before the end.
	Status        int
	Outcome       string // name of the outcome
	RequestBytes  int64  // bytes of the request body
	ResponseBytes int64
	Ended         time.Time // wall-clock time

	Queued   time.Duration // time from arrival to admission
	Upstream time.Duration // time from the first byte sent to the container to the end; 0 = no byte was sent
	Total    time.Duration

	// TraceID is the trace of the gate's span. If the request is not sampled, it is the
	// received trace id. Zero means none.
	TraceID gate.TraceID
}

// Entry has the data of a line. Begin returns it, and End queues it.
type Entry struct {
	log    *Log
	format *format
	// text contains the method, target, protocol and host of the request, then the names
	// and values of its header fields, all without separators.
	text []byte
	// fixed has four indices into the bytes of text. They are the ends of the method,
	// target, protocol and host.
	fixed  [4]int
	fields []field
	peer   netip.AddrPort
	result Result

	// add is the method value e.addField. It is created once per Entry, because creating
	// it for each request would allocate memory.
	add func(name, value []byte) bool
}

// field is a header field. Its name and its value are adjacent in text.
type field struct{ start, nameEnd, valueEnd int }

const (
	// entryOverhead is the size in bytes of an entry without its text.
	entryOverhead = 256
	fieldOverhead = 24

	// An entry with more text or fields is not reused.
	maxPooledText   = 8 << 10
	maxPooledFields = 128
)

func newEntry(l *Log) *Entry {
	e := &Entry{log: l}
	e.add = e.addField
	return e
}

// Begin copies the parts of the request head that a line can contain. On a nil Log it
// returns nil.
func (l *Log) Begin(head *gate.Record) *Entry {
	if l == nil {
		return nil
	}
	e := l.entries.Get().(*Entry)
	e.format = l.format.Load()
	e.begin(head)
	return e
}

func (e *Entry) begin(head *gate.Record) {
	e.text = append(e.text, head.Method...)
	e.fixed[0] = len(e.text)
	e.text = append(e.text, head.Target...)
	e.fixed[1] = len(e.text)
	e.text = append(e.text, head.Protocol...)
	e.fixed[2] = len(e.text)
	e.text = append(e.text, head.Host...)
	e.fixed[3] = len(e.text)
	e.peer = head.Peer
	if head.Fields != nil {
		head.Fields.Each(e.add)
	}
}

func (e *Entry) addField(name, value []byte) bool {
	if !e.format.shows(name) {
		return true
	}
	start := len(e.text)
	e.text = append(append(e.text, name...), value...)
	e.fields = append(e.fields, field{start, start + len(name), len(e.text)})
	return true
}

// End queues the entry for writing. It never blocks. The caller must not use the entry
// afterwards. On a nil Entry it does nothing.
func (e *Entry) End(result Result) {
	if e == nil {
		return
	}
	e.result = result
	e.log.lines.Put((*queued)(e))
}

type queued Entry

func (q *queued) Size() int { return entryOverhead + len(q.text) + fieldOverhead*len(q.fields) }

func (q *queued) Append(b []byte) ([]byte, error) {
	return q.format.render.appendLine(b, (*Entry)(q), &q.log.revision)
}

func (q *queued) Release() { q.log.release((*Entry)(q)) }

func (e *Entry) method() []byte   { return e.text[:e.fixed[0]] }
func (e *Entry) target() []byte   { return e.text[e.fixed[0]:e.fixed[1]] }
func (e *Entry) protocol() []byte { return e.text[e.fixed[1]:e.fixed[2]] }
func (e *Entry) host() []byte     { return e.text[e.fixed[2]:e.fixed[3]] }

func (e *Entry) field(i int) (name, value []byte) {
	f := e.fields[i]
	return e.text[f.start:f.nameEnd], e.text[f.nameEnd:f.valueEnd]
}

// first returns the first value of a field; nil = absent.
func (e *Entry) first(name string) []byte {
	for i := range e.fields {
		if n, v := e.field(i); equalFold(n, name) {
			return v
		}
	}
	return nil
}

func (l *Log) release(e *Entry) {
	if cap(e.text) > maxPooledText || cap(e.fields) > maxPooledFields {
		return
	}
	e.text, e.fields, e.result = e.text[:0], e.fields[:0], Result{}
	l.entries.Put(e)
}

// equalFold is bytes.EqualFold for ASCII.
func equalFold(a []byte, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i, c := range a {
		d := b[i]
		if c != d && (c|0x20 != d|0x20 || c|0x20 < 'a' || c|0x20 > 'z') {
			return false
		}
	}
	return true
}

package field

// Kind classifies the fields that an engine acts on.
type Kind uint8

// The kinds. Most kinds are named after their only field. The others have a comment that
// lists their fields.
const (
	Other Kind = iota
	Host
	ContentLength
	TransferEncoding
	Connection
	HopByHop // Keep-Alive, Proxy-Connection, Proxy-Authenticate, Proxy-Authorization
	TE
	Upgrade
	Expect
	UserAgent
	ForwardedFor
	ForwardedProto
	ForwardedHost
	Forwarded
	OriginalHost
	NetworkProbe
	NetworkHash
	ProxyRequest
	RevisionRouting // Knative-Serving-Namespace, Knative-Serving-Revision
	ServingTag      // Knative-Serving-Tag
	DefaultRoute    // Knative-Serving-Default-Route
	Trailer
	Date
	Trace      // traceparent, b3 and X-B3-*: replaced by the gate's span
	TraceState // tracestate: forwarded unchanged
	Gate       // K-Gate-*
	WebSocketKey
	WebSocketAccept
	LoadFormat // endpoint-load-metrics-format
	LoadReport // endpoint-load-metrics, endpoint-load-metrics-bin
)

// known holds the fields that have a kind, indexed by the length of the name.
var known = [...][]struct {
	name string // in lower case
	kind Kind
}{
	2:  {{"te", TE}, {"b3", Trace}},
	4:  {{"host", Host}, {"date", Date}},
	6:  {{"expect", Expect}},
	7:  {{"upgrade", Upgrade}, {"trailer", Trailer}},
	9:  {{"forwarded", Forwarded}},
	10: {{"user-agent", UserAgent}, {"connection", Connection}, {"keep-alive", HopByHop}, {"tracestate", TraceState}, {"x-b3-flags", Trace}},
	11: {{"traceparent", Trace}, {"x-b3-spanid", Trace}},
	12: {{"x-b3-traceid", Trace}, {"x-b3-sampled", Trace}},
	14: {{"content-length", ContentLength}, {"k-network-hash", NetworkHash}},
	15: {{"x-forwarded-for", ForwardedFor}, {"k-network-probe", NetworkProbe}, {"k-proxy-request", ProxyRequest}, {"k-original-host", OriginalHost}},
	16: {{"x-forwarded-host", ForwardedHost}, {"proxy-connection", HopByHop}},
	17: {{"sec-websocket-key", WebSocketKey}, {"transfer-encoding", TransferEncoding}, {"x-forwarded-proto", ForwardedProto}, {"x-b3-parentspanid", Trace}},
	18: {{"proxy-authenticate", HopByHop}},
	19: {{"knative-serving-tag", ServingTag}, {"proxy-authorization", HopByHop}},
	20: {{"sec-websocket-accept", WebSocketAccept}},
	21: {{"endpoint-load-metrics", LoadReport}},
	24: {{"knative-serving-revision", RevisionRouting}},
	25: {{"knative-serving-namespace", RevisionRouting}, {"endpoint-load-metrics-bin", LoadReport}},
	28: {{"endpoint-load-metrics-format", LoadFormat}},
	29: {{"knative-serving-default-route", DefaultRoute}},
}

// Of returns the kind of the field with the given name.
func Of(name []byte) Kind {
	if len(name) == 0 {
		return Other
	}
	first := name[0] | 0x20 // the first byte excludes most names
	if len(name) < len(known) {
		for i := range known[len(name)] {
			if k := &known[len(name)][i]; first == k.name[0] && HasPrefixFold(name, k.name) {
				return k.kind
			}
		}
	}
	if first == 'k' && HasPrefixFold(name, "k-gate-") {
		return Gate
	}
	return Other
}

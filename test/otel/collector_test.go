package otel

import (
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	metricscollector "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	tracecollector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	_ "google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/stats"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// Ports of the collector on every loopback address.
const (
	grpcPort       = "4317"
	httpPort       = "4318"
	grpcTLSPort    = "5317"
	httpTLSPort    = "5318"
	grpcMutualPort = "6317" // requires a client certificate
	httpMutualPort = "6318"
	grpcHungPort   = "7317" // never responds
	httpHungPort   = "7318"
)

// Arrival describes a received message. It contains only properties that the sender's
// configuration determines. So two senders with the same configuration have equal
// arrivals.
type Arrival struct {
	Destination string // protocol, scheme, address and path
	Headers     string // headers except implementationHeaders
	Encoding    string
	Client      string // common name of the client certificate
	Resource    string
}

// collector is an OTLP receiver over gRPC and HTTP/protobuf.
type collector struct {
	mu       sync.Mutex
	arrivals map[string]map[Arrival]int // key: signal; value: messages per Arrival
	traces   map[string]bool            // hexadecimal trace ids
	metrics  map[string]bool            // scope, name, unit and kind
	waits    map[string]time.Duration   // how long senders waited for a response that never came, by signal
	sampled  chan string                // trace ids
}

func startCollector(certificates string) (*collector, error) {
	c := &collector{arrivals: map[string]map[Arrival]int{}, traces: map[string]bool{}, metrics: map[string]bool{}, waits: map[string]time.Duration{},
		sampled: make(chan string, 1<<16)}
	for port, clientAuth := range map[string]tls.ClientAuthType{
		grpcPort: 0, httpPort: 0, grpcHungPort: 0, httpHungPort: 0, grpcTLSPort: tls.RequestClientCert, httpTLSPort: tls.RequestClientCert,
		grpcMutualPort: tls.RequireAndVerifyClientCert, httpMutualPort: tls.RequireAndVerifyClientCert,
	} {
		listener, err := net.Listen("tcp", ":"+port)
		if err != nil {
			return nil, err
		}
		var config *tls.Config
		if port == grpcTLSPort || port == httpTLSPort || port == grpcMutualPort || port == httpMutualPort {
			if config, err = serverTLS(certificates, clientAuth); err != nil {
				return nil, err
			}
		}
		isHung := port == grpcHungPort || port == httpHungPort
		if strings.HasSuffix(port, "317") {
			options := []grpc.ServerOption{grpc.StatsHandler(calls{}), grpc.MaxRecvMsgSize(64 << 20)}
			if config != nil {
				options = append(options, grpc.Creds(credentials.NewTLS(config)))
			}
			s := grpc.NewServer(options...)
			tracecollector.RegisterTraceServiceServer(s, &traceService{collector: c, isHung: isHung})
			metricscollector.RegisterMetricsServiceServer(s, &metricsService{collector: c, isHung: isHung})
			go s.Serve(listener)
			continue
		}
		s := &http.Server{Handler: &httpService{c, isHung}, TLSConfig: config}
		if config != nil {
			listener = tls.NewListener(listener, config)
		}
		go s.Serve(listener)
	}
	return c, nil
}

func serverTLS(dir string, clientAuth tls.ClientAuthType) (*tls.Config, error) {
	certificate, err := tls.LoadX509KeyPair(filepath.Join(dir, "server.pem"), filepath.Join(dir, "server.key"))
	if err != nil {
		return nil, err
	}
	pem, err := os.ReadFile(filepath.Join(dir, "ca.pem"))
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	return &tls.Config{Certificates: []tls.Certificate{certificate}, ClientAuth: clientAuth, ClientCAs: roots}, nil
}

// implementationHeaders depend on the sender's library, not on its configuration.
var implementationHeaders = map[string]bool{
	"user-agent": true, "content-length": true, "accept-encoding": true, "grpc-accept-encoding": true, "grpc-timeout": true, "te": true, ":authority": true,
	"content-encoding": true, "grpc-encoding": true, // see Arrival.Encoding
}

// headersOf formats the headers that are not in implementationHeaders, sorted by name.
// It includes User-Agent only if the test has set it by the environment.
func headersOf(headers map[string][]string) string {
	formatted := map[string]string{}
	for name, values := range headers {
		name = strings.ToLower(name)
		if !implementationHeaders[name] || name == "user-agent" && strings.HasPrefix(values[0], "set-by-environment") {
			formatted[name] = strings.Join(values, "; ")
		}
	}
	return sorted(formatted)
}

// resourceOf formats the attributes of a resource. It hides which software sent them:
// it leaves out the attributes telemetry.sdk.*, and replaces the value of
// service.version.
func resourceOf(r *resource.Resource) string {
	formatted := map[string]string{}
	for _, a := range r.GetAttributes() {
		switch {
		case strings.HasPrefix(a.Key, "telemetry.sdk."): // a documented difference: the gate has no SDK
		case a.Key == "service.version":
			formatted[a.Key] = "(version)"
		default:
			formatted[a.Key] = text(a.Value)
		}
	}
	return sorted(formatted)
}

func text(v *common.AnyValue) string {
	if s, ok := v.GetValue().(*common.AnyValue_StringValue); ok {
		return s.StringValue
	}
	return v.String()
}

func (c *collector) receiveTraces(a Arrival, spans []*tracepb.ResourceSpans) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range spans {
		a.Resource = resourceOf(r.Resource)
		c.arrived("traces", a)
		for _, scope := range r.ScopeSpans {
			for _, s := range scope.Spans {
				id := hex.EncodeToString(s.TraceId)
				if !c.traces[id] {
					c.traces[id] = true
					c.sampled <- id
				}
			}
		}
	}
}

func (c *collector) receiveMetrics(a Arrival, metrics []*metricspb.ResourceMetrics) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range metrics {
		a.Resource = resourceOf(r.Resource)
		c.arrived("metrics", a)
		for _, scope := range r.ScopeMetrics {
			for _, m := range scope.Metrics {
				c.metrics[fmt.Sprintf("%s %s %s %s", scope.Scope.GetName(), m.Name, m.Unit, strings.TrimPrefix(fmt.Sprintf("%T", m.Data), "*v1.Metric_"))] = true
			}
		}
	}
}

func (c *collector) arrived(signal string, a Arrival) {
	if c.arrivals[signal] == nil {
		c.arrivals[signal] = map[Arrival]int{}
	}
	c.arrivals[signal][a]++
}

// hang waits until the sender cancels the call.
func (c *collector) hang(ctx context.Context, signal string) {
	start := time.Now()
	<-ctx.Done()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waits[signal] == 0 {
		c.waits[signal] = time.Since(start)
	}
}

// total returns the number of messages of a signal.
func (c *collector) total(signal string) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, count := range c.arrivals[signal] {
		n += count
	}
	if c.waits[signal] != 0 {
		n++
	}
	return n
}

type traceService struct {
	tracecollector.UnimplementedTraceServiceServer
	*collector
	isHung bool
}

func (s *traceService) Export(ctx context.Context, m *tracecollector.ExportTraceServiceRequest) (*tracecollector.ExportTraceServiceResponse, error) {
	if s.isHung {
		s.hang(ctx, "traces")
		return nil, ctx.Err()
	}
	s.receiveTraces(grpcArrival(ctx), m.ResourceSpans)
	return new(tracecollector.ExportTraceServiceResponse), nil
}

type metricsService struct {
	metricscollector.UnimplementedMetricsServiceServer
	*collector
	isHung bool
}

func (s *metricsService) Export(ctx context.Context, m *metricscollector.ExportMetricsServiceRequest) (*metricscollector.ExportMetricsServiceResponse, error) {
	if s.isHung {
		s.hang(ctx, "metrics")
		return nil, ctx.Err()
	}
	s.receiveMetrics(grpcArrival(ctx), m.ResourceMetrics)
	return new(metricscollector.ExportMetricsServiceResponse), nil
}

// calls records the compression and the method of a call, which are hidden from grpc-go's
// handlers.
type calls struct{}

type callKey struct{}

func (calls) TagRPC(ctx context.Context, i *stats.RPCTagInfo) context.Context {
	return context.WithValue(ctx, callKey{}, &stats.InHeader{FullMethod: i.FullMethodName})
}

func (calls) HandleRPC(ctx context.Context, s stats.RPCStats) {
	if head, ok := s.(*stats.InHeader); ok {
		*ctx.Value(callKey{}).(*stats.InHeader) = *head
	}
}

func (calls) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (calls) HandleConn(context.Context, stats.ConnStats)                       {}

func grpcArrival(ctx context.Context) Arrival {
	head := ctx.Value(callKey{}).(*stats.InHeader)
	fields, _ := metadata.FromIncomingContext(ctx)
	a := Arrival{Headers: headersOf(fields), Encoding: head.Compression}
	scheme := "http"
	if p, _ := peer.FromContext(ctx); p != nil {
		if info, ok := p.AuthInfo.(credentials.TLSInfo); ok {
			scheme, a.Client = "https", clientOf(&info.State)
		}
	}
	a.Destination = fmt.Sprintf("grpc %s://%s%s", scheme, head.LocalAddr, head.FullMethod)
	return a
}

func clientOf(s *tls.ConnectionState) string {
	if len(s.PeerCertificates) == 0 {
		return ""
	}
	return s.PeerCertificates[0].Subject.CommonName
}

type httpService struct {
	*collector
	isHung bool
}

// ServeHTTP accepts any path, because the environment may set one.
func (s *httpService) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a := Arrival{Headers: headersOf(r.Header), Encoding: r.Header.Get("Content-Encoding")}
	scheme := "http"
	if r.TLS != nil {
		scheme, a.Client = "https", clientOf(r.TLS)
	}
	local := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	a.Destination = fmt.Sprintf("%s %s %s://%s%s", r.Method, r.Proto, scheme, local, r.URL.RequestURI())
	body, err := readBody(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	isJSON, unmarshal := r.Header.Get("Content-Type") == contentTypeJSON, proto.Unmarshal
	if isJSON { // OTLP writes ids in hexadecimal, but protojson expects base64
		unmarshal = protojson.Unmarshal
	}
	traces, metrics := new(tracecollector.ExportTraceServiceRequest), new(metricscollector.ExportMetricsServiceRequest)
	isMetrics := unmarshal(body, traces) != nil || !isJSON && !areSpans(traces)
	if isMetrics {
		if err := unmarshal(body, metrics); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	if s.isHung {
		s.hang(r.Context(), map[bool]string{false: "traces", true: "metrics"}[isMetrics])
		return
	}
	var response proto.Message = new(tracecollector.ExportTraceServiceResponse)
	if isMetrics {
		response = new(metricscollector.ExportMetricsServiceResponse)
		s.receiveMetrics(a, metrics.ResourceMetrics)
	} else {
		s.receiveTraces(a, traces.ResourceSpans)
	}
	encoded, _ := proto.Marshal(response)
	if isJSON {
		encoded, _ = protojson.Marshal(response)
	}
	w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
	_, _ = w.Write(encoded)
}

// areSpans reports whether m contains real spans. The bytes of a metrics message may also
// decode as a trace message. Only in a real trace message do trace ids have 16 bytes and
// span ids 8 bytes, so areSpans checks these lengths.
func areSpans(m *tracecollector.ExportTraceServiceRequest) (found bool) {
	for _, r := range m.ResourceSpans {
		for _, scope := range r.ScopeSpans {
			for _, s := range scope.Spans {
				if found = len(s.TraceId) == 16 && len(s.SpanId) == 8; !found {
					return false
				}
			}
		}
	}
	return found
}

const (
	contentTypeProtobuf = "application/x-protobuf"
	contentTypeJSON     = "application/json"
)

func readBody(r *http.Request) ([]byte, error) {
	if kind := r.Header.Get("Content-Type"); kind != contentTypeProtobuf && kind != contentTypeJSON {
		return nil, fmt.Errorf("content type %q", kind)
	}
	var body io.Reader = r.Body
	switch r.Header.Get("Content-Encoding") {
	case "":
	case "gzip":
		unzipped, err := gzip.NewReader(body)
		if err != nil {
			return nil, err
		}
		body = unzipped
	default:
		return nil, errors.New("unknown encoding")
	}
	return io.ReadAll(body)
}

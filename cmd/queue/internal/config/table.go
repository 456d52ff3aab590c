package config

import (
	"strings"

	"github.com/queuegate/queuegate/pkg/gate/admission"
	"github.com/queuegate/queuegate/pkg/gate/exchange"
)

// row is a setting of the table.
type row struct {
	// names are the environment variables of the setting, in order of precedence. The
	// first is the setting's name. A name with a dot is a path in OBSERVABILITY_CONFIG.
	names string
	flag  string // without the dashes
	// standard is the default: VALUE, "VALUE = MEANING", or a description in
	// parentheses of a computed default.
	standard string
	value    value
	help     string
}

// noEffect begins the help of settings that are only parsed and checked.
const noEffect = "Accepted because Knative sends it, without effect"

// groups are the groups of rows with their titles, in the order of --help, --check and
// the documentation.
var groups = []struct {
	title string
	rows  func(*Config) []row
}{
	{"Traffic", trafficRows},
	{"Admission", admissionRows},
	{"Timeouts", timeoutRows},
	{"Container", containerRows},
	{"Readiness", readinessRows},
	{"Rewritten application probes", appProbeRows},
	{"Drain", drainRows},
	{"Ports of the gate itself", portRows},
	{"Metrics, tracing and profiling", metricsRows},
	{otelTitle, otelRows},
	{"Logs", logRows},
	{"TLS", tlsRows},
	{"Identity", identityRows},
	{"Settings of one service", serviceRows},
}

func trafficRows(c *Config) []row {
	return []row{
		{"QUEUE_SERVING_PORT", "port", "8012", port.bind(&c.ServingPort),
			"Port for traffic and network probes."},
		{"QUEUE_SERVING_TLS_PORT", "tls-port", "8112", portOrOff.bind(&c.ServingTLSPort),
			"Port for traffic and network probes over TLS, once CERT_DIR holds a certificate; 0 = off."},
		{"USER_PORT", "user-port", "8080", portOrAuto.bind(&c.UserPort),
			"Port of the container, on 127.0.0.1. auto: the port on which the application behind \"queue -- COMMAND\" listens."},
		{"PRESET", "preset", "(none)", choice(presetNames, presetNames).bind(&c.Preset),
			"Kind of model server behind the gate. It sets the settings listed in docs/models.md to values for this server, unless another source sets them."},
		{"LISTEN_ADDRESS", "listen-address", "(all, IPv4 and IPv6)", address.bind(&c.ListenAddress),
			"Address to listen on, for all ports except the status page's."},
		{"THREADS", "threads", "0 = automatic", count(1024).bind(&c.Threads),
			"Number of event loops."},
		{"CLIENT_HALF_CLOSE", "client-half-close", "close", choice([]string{"close", "answer", "gone"}, []bool{false, true, false}).bind(&c.Gate.AllowHalfClose),
			"Meaning of a client's FIN before its response has ended: the client has disconnected (close, or gone), or it still reads (answer)."},
		{"TRUSTED_SOURCES", "trusted-sources", "(all)", prefixes.bind(&c.Gate.TrustedSources),
			"Peers whose probe headers, user agents and forwarding fields are accepted, in addition to loopback. A request of any other peer " +
				"is traffic, and its K-Proxy-Request, K-Original-Host, X-Forwarded-*, Forwarded, X-Real-IP, X-Request-Start and Knative-Serving-* " +
				"are removed, also if they are spelled with _ for -."},
		{"SERVER_TIMING", "server-timing", "false", yesNo.bind(&c.Gate.ServerTiming),
			"Add Server-Timing to responses: the milliseconds for which the request waited for a slot (queue), for a connection (connect) and for the response head (upstream)."},
		{"REQUEST_START", "request-start", "false", yesNo.bind(&c.Gate.RequestStart),
			"Add X-Request-Start: t=MICROSECONDS to requests, the instant of their arrival. A field from a trusted source is kept, and one from any other source is replaced."},
		{"LOAD_REPORTS", "load-reports", "request", choice([]string{"off", "request", "always"},
			[]exchange.LoadReports{exchange.NoLoadReports, exchange.RequestedLoadReports, exchange.AllLoadReports}).bind(&c.Gate.LoadReports),
			"ORCA load reports in responses, for balancers that weight pods: off, request (to trusted sources that ask with endpoint-load-metrics-format: TEXT, JSON or BIN) or always."},
		{"LOAD_REPORT_STREAM", "load-report-stream", "false", yesNo.bind(&c.Gate.LoadReportStream),
			"Serve ORCA load reports to trusted sources as xds.service.orca.v3.OpenRcaService/StreamCoreMetrics (gRPC) on the serving ports, uncounted and unqueued; the container does not get these calls."},
		{"HEAD_MEMORY", "head-memory", "16Mi", size(64 << 10).bind(&c.Gate.HeadMemory),
			"Memory shared by all request heads until the end of their responses, beyond the first 8 KiB of each; a head that needs more gets 503."},
		{"HTTP2_MAX_HEADER_LIST", "http2-max-header-list", "64Ki", size(4 << 10).bind(&c.HTTP2MaxHeaderList),
			"Longest request head over HTTP/2, after decoding, as SETTINGS_MAX_HEADER_LIST_SIZE counts it; a longer one gets 431."},
		{"ENABLE_HTTP_FULL_DUPLEX", "http-full-duplex", "false", yesNo.bind(&c.ignored.fullDuplex),
			noEffect + ": the gate always works in full duplex."},
	}
}

func admissionRows(c *Config) []row {
	return []row{
		{"CONTAINER_CONCURRENCY", "concurrency", "0 = unlimited", concurrency.live(&c.Concurrency),
			"Concurrency limit: the most requests in flight at once. auto finds the limit at which the container's latency has not begun to rise."},
		{"CONCURRENCY_HARD", "concurrency-hard", "false", yesNo.bind(&c.Gate.HardConcurrency),
			"Hold the slot of a request whose client has disconnected until the container closes the connection or finishes, so that the container never processes more requests than the limit."},
		{"QUEUE_CAPACITY", "queue-capacity", "(10 x the concurrency limit, or 1000 without one)", count(admission.MaxCapacity).live(&c.Gate.QueueCapacity),
			"Number of requests that may be queued; the next one gets 503. If it is not set, it follows the limit of CONTAINER_CONCURRENCY=auto, and a queue that does not drain rejects its oldest requests (not with QUEUE_FAIR_BY or QUEUE_PRIORITY_BY)."},
		{"QUEUE_MAX_WAIT", "queue-max-wait", "0 = off", duration.live(&c.Gate.QueueMaxWait),
			"Longest wait in the queue; then 503."},
		{"QUEUE_FAIR_BY", "queue-fair-by", "(strict FIFO)", selector.live(&c.Gate.Overload.FairBy),
			"Key by which queued requests share slots fairly: a header field, the peer's address or a segment of the path. A full queue sheds the newest request of the key with the most queued requests. A peer that TRUSTED_SOURCES does not name has its address (IPv6: its /64) as its key."},
		{"QUEUE_PRIORITY_BY", "queue-priority-by", "(none)", headerField.live(&c.Gate.Overload.PriorityBy),
			"Header field with the priority class, 0 (first) to 7, alone or as u= of RFC 9218; 3 without one. Only peers in TRUSTED_SOURCES may set it."},
		{"QUEUE_EVICT", "queue-evict", "(none)", evictionRule.live(&c.Gate.Overload.Evict),
			"Eviction: when a request has been queued for longer than after, the gate ends the most recently admitted request of a lower class, N or below (greater numbers), and releases its slot. " +
				"At most rate evictions per second (default 1), after a burst of a quarter of the slots. Needs QUEUE_PRIORITY_BY."},
		{"QUEUE_COST_BY", "queue-cost-by", "(none)", costField.live(&c.Gate.Overload.CostBy),
			"Cost of a request in units: length, a quarter of the body's Content-Length (about its tokens), or the number in a header field; at least 1. " +
				"QUEUE_FAIR_BY then shares units, not slot time. Only peers in TRUSTED_SOURCES may set the field. Needs QUEUE_COST_LIMIT."},
		{"QUEUE_COST_LIMIT", "queue-cost-limit", "0 = off", count(admission.MaxCost).live(&c.Gate.Overload.CostLimit),
			"Maximum sum of the units of all requests in flight; it applies with and without CONTAINER_CONCURRENCY. A request that costs more is served when nothing else is in flight. Needs QUEUE_COST_BY."},
		{"ENGINE_METRICS", "engine-metrics", "(none)", loopbackURL.bind(&c.EngineMetrics),
			"Page with the metrics of the model server behind the gate (vLLM, SGLang, TensorRT-LLM, Triton), such as http://127.0.0.1:8000/metrics. " +
				"Requests are admitted only while the page shows room; the gate reads the page only while there are requests. Without a valid page, only the other limits apply."},
		{"ENGINE_METRICS_PERIOD", "engine-metrics-period", "50ms", pollPeriod.bind(&c.EngineMetricsPeriod),
			"Time between two reads of the page of ENGINE_METRICS."},
		{"ENGINE_MAX_WAITING", "engine-max-waiting", "0", count(admission.MaxLimit).live(&c.EngineMaxWaiting),
			"Requests are admitted while at most this many wait in the model server's own queue. Between two reads of its page, at most one more than this number is admitted; if that does not keep the model server busy, the gate raises this maximum."},
		{"ENGINE_MAX_KV", "engine-max-kv", "0.9", rate.live(&c.EngineMaxKV),
			"Once more than this share of the model server's KV cache is in use, no request is admitted until the share is 0.02 below this value; 1 = no limit."},
		{"QUEUE_DEADLINE_BY", "queue-deadline-by", "(none)", timeoutField.live(&c.Gate.Overload.DeadlineBy),
			"Header field with the time that the client will wait, such as header:grpc-timeout; a request that cannot be served in time gets 504 before it begins. " +
				"A plain number is in seconds, or in milliseconds with :ms or if the name ends in -ms. Only peers in TRUSTED_SOURCES may set it."},
		{"QUEUE_RETRY_AFTER", "queue-retry-after", "1", either("1", "measured").live(&c.Gate.Overload.MeasuredRetry),
			"Retry-After of requests that the queue rejects or evicts: one second, or the measured time that the queue needs to drain."},
		{"QUEUE_REFUSAL_STATUS", "queue-refusal-status", "503", choice([]string{"503", "429"}, []int{503, 429}).live(&c.Gate.QueueRefusalStatus),
			"Status of a request that a full queue rejects, that has waited for QUEUE_MAX_WAIT, or that is evicted. 429 does not count as a failure of the pod for outlier detection and error budgets."},
		{"UNLIMITED_PATHS", "unlimited-paths", "(none)", pathPatterns.bind(&c.Gate.UnlimitedPaths),
			"Paths that are served without a slot, without the queue and without being counted, such as /metrics for scrapers; /health/* means all paths below /health/."},
		{"UNLIMITED_CAPACITY", "unlimited-capacity", "8", wholeNumber("N", 1, 1024, "a whole number from 1 to 1024").bind(&c.Gate.UnlimitedCapacity),
			"Most requests for UNLIMITED_PATHS at once; further requests are rejected as by a full queue."},
		{"UNCOUNTED_PATHS", "uncounted-paths", "(none)", urlPaths.bind(&c.UncountedPaths),
			"Paths that are served but not counted, for your own health checks; compared exactly."},
	}
}

func timeoutRows(c *Config) []row {
	return []row{
		{"REVISION_TIMEOUT_SECONDS", "timeout", "300", wholeSeconds(1).live(&c.Gate.RequestTimeout),
			"Longest time from the arrival of a request, the queue included, to the end of its response; then 504."},
		{"REVISION_RESPONSE_START_TIMEOUT_SECONDS", "response-start-timeout", "0 = off", wholeSeconds(0).live(&c.Gate.ResponseStartTimeout),
			"Longest wait for the head of the response; then 504."},
		{"REVISION_IDLE_TIMEOUT_SECONDS", "idle-timeout", "0 = off", wholeSeconds(0).live(&c.Gate.IdleTimeout),
			"Longest time without a byte in either direction."},
		{"TUNNEL_MAX_SECONDS", "tunnel-max", "0 = off", seconds.live(&c.Gate.TunnelMax),
			"Longest life of a tunnel (WebSocket), which the request timeout does not cut."},
		{"WAIT_KEEPALIVE", "wait-keepalive", "0 = off", waitTime.live(&c.Gate.WaitKeepalive),
			"Interval of comments to clients that accept text/event-stream and wait for a response, queued or not: after this time the gate begins a 200 with an event stream, which the container's response continues. A failure after that is an error event."},
		{"WAIT_PAGE", "wait-page", "0 = off", waitTime.live(&c.Gate.WaitPage),
			"Time for which a browser's navigation (GET, Accept: text/html) waits for a slot or for the container to listen before it gets a 503 with a page that loads itself again."},
	}
}

func containerRows(c *Config) []row {
	return []row{
		{"UPSTREAM_WAIT", "upstream-wait", "10s", duration.live(&c.Gate.UpstreamWait),
			"How long a request is queued at start-up while the container does not listen yet; then 503."},
		{"UPSTREAM_RESTART_WAIT", "upstream-restart-wait", "1s", duration.live(&c.Gate.UpstreamRestartWait),
			"How long a request is queued while the container does not listen after it has been ready; then 503."},
		{"UPSTREAM_PROTOCOL", "upstream-protocol", "auto", wordKind("auto", "http1", "h2c").bind(&c.UpstreamProtocol),
			"Protocol towards the container for requests over HTTP/2: HTTP/1.1 (http1), HTTP/2 without TLS by prior knowledge (h2c), " +
				"or the container's protocol, detected once per start (auto). Requests over HTTP/1 are sent over HTTP/1.1 unless the container speaks only HTTP/2 (auto) or h2c is set."},
		{"ENABLE_HTTP2_AUTO_DETECTION", "http2-auto-detection", "false", yesNo.bind(&c.ignored.http2AutoDetection),
			noEffect + ": UPSTREAM_PROTOCOL=auto always detects HTTP/2."},
		{"UPSTREAM_TLS", "upstream-tls", "off", either("off", "true").bind(&c.UpstreamTLS),
			"Speak TLS to the container. UPSTREAM_TLS_CA, ROOT_CA, UPSTREAM_TLS_SERVER_NAME and UPSTREAM_TLS_INSECURE determine how its certificate is verified."},
		{"UPSTREAM_TLS_CA", "upstream-tls-ca", "(ROOT_CA, else those of the system)", file.bind(&c.UpstreamTLSCA),
			"File of the certificates, in PEM, one of which must have signed the container's certificate."},
		{"UPSTREAM_TLS_SERVER_NAME", "upstream-tls-server-name", "(localhost)", host.bind(&c.UpstreamTLSServerName),
			"Name that the container's certificate must have."},
		{"UPSTREAM_TLS_INSECURE", "upstream-tls-insecure", "false", yesNo.bind(&c.UpstreamTLSInsecure),
			"Accept any certificate of the container."},
	}
}

func readinessRows(c *Config) []row {
	return []row{
		{"SERVING_READINESS_PROBE", "readiness-probe", "(a TCP probe of USER_PORT)", readinessProbe.bind(&c.ReadinessProbe),
			"The container's readiness probe as Kubernetes writes it, or an array with one probe for each container; none: always ready."},
		{"ENABLE_MULTI_CONTAINER_PROBES", "multi-container-probes", "false", yesNo.bind(&c.MultiContainerProbes),
			"SERVING_READINESS_PROBE is an array, which may be empty."},
		{"CONTAINER_NAMES", "container-names", "(index and port)", containerNames.bind(&c.ContainerNames),
			"Names of the probed containers, in the order of the array, for reasons and logs."},
		{"READINESS_WAIT", "readiness-wait", "10s", duration.bind(&c.ReadinessWait),
			"How long a probe waits until a container with an adaptive probe is ready."},
		{"READINESS_FRESHNESS", "readiness-freshness", "1s", positiveDuration.bind(&c.ReadinessFreshness),
			"Maximum age of the last check; a probe that arrives later causes a new check (periodSeconds 0 or absent)."},
		{"READINESS_ROOM", "readiness-room", "0 = off", duration.bind(&c.ReadinessRoom),
			"The gate is not ready once the pages of ENGINE_METRICS have left no room for this long."},
	}
}

func appProbeRows(c *Config) []row {
	return []row{
		{"KUBE_APP_PROBERS ISTIO_KUBE_APP_PROBERS", "app-probers", "(none)", appProbers.bind(&c.AppProbers),
			"The container's own probes by path, for a kubelet that sends them to the gate."},
		{"APP_PROBE_HOST", "app-probe-host", "127.0.0.1", host.bind(&c.AppProbeHost),
			"Host to which the probes of KUBE_APP_PROBERS are sent."},
		{"APP_PROBE_PORT", "app-probe-port", "0 = admin port only", portOrOff.bind(&c.AppProbePort),
			"Additional port that serves only the paths of KUBE_APP_PROBERS."},
	}
}

func drainRows(c *Config) []row {
	return []row{
		{"DRAIN_QUIET_SECONDS", "drain-quiet", "(30 on Kubernetes and Knative, 0 elsewhere)", seconds.bind(&c.Gate.DrainQuiet),
			"A drain ends after this long without a request; 0 ends it as soon as nothing is open."},
		{"DRAIN_TUNNEL_SECONDS", "drain-tunnel", "60", seconds.bind(&c.Gate.DrainTunnel),
			"Time for which tunnels (WebSocket) may stay open after a drain has closed the listeners; then they are cut."},
		{"STOP_TIMEOUT", "stop-timeout", "10s", duration.bind(&c.StopTimeout),
			"How long the application behind \"queue -- COMMAND\" may take to end after its signal; then its process group gets SIGKILL. 0 = no limit."},
		{"IDLE_STOP", "idle-stop", "0 = off", idleTime.bind(&c.IdleStop),
			"Time without a request or tunnel after which the application behind \"queue -- COMMAND\" is stopped, until the next request starts it again. With IDLE_FREEZE the application is frozen instead, and with IDLE_HOOK it is told to sleep. Probes report ready while it is stopped."},
		{"IDLE_FREEZE", "idle-freeze", "false", yesNo.bind(&c.IdleFreeze),
			"Freeze the processes of the idle application instead of stopping it, until the next request. Needs IDLE_STOP and a cgroup (v2, or freezer of v1) that the gate may write to."},
		{"IDLE_HOOK", "idle-hook", "(none)", hookURL.bind(&c.IdleHook),
			"URL that gets a POST when the container has been idle for IDLE_STOP, for servers with a sleep mode; the gate does not stop them. Works with and without COMMAND. Needs WAKE_HOOK."},
		{"WAKE_HOOK", "wake-hook", "(none)", hookURL.bind(&c.WakeHook),
			"URL that gets a POST when a request arrives after IDLE_HOOK. Requests wait until the response is 2xx, for at most UPSTREAM_WAIT, and are then forwarded."},
		{"IDLE_WAKE_BY_PROBES", "idle-wake-by-probes", "false", yesNo.bind(&c.IdleWakeByProbes),
			"A readiness probe wakes the sleeping application, as a request does, and waits for its readiness."},
		{"DRAIN_SOCKET", "drain-socket", "@queuegate", socket.bind(&c.DrainSocket),
			"Unix socket through which \"queue drain\" and \"queue upgrade\" reach the gate. An abstract one (@name) needs no writable file system, and belongs to the pod. The gate serves only its own user and root."},
	}
}

func portRows(c *Config) []row {
	return []row{
		{"SIDE_PORTS", "side-ports", "(each where its setting says)", sidePortBlock.bind(&c.SidePorts),
			"Ports besides the serving port, so that several gates can run on one host: off, or the first of six consecutive ports, for TLS, " +
				"admin, autoscaler, metrics, status and profiling. A port whose own setting is set does not change. DRAIN_SOCKET is then " +
				"@queuegate-QUEUE_SERVING_PORT unless set."},
		{"ADMIN_PORT", "admin-port", "8022", portOrOff.bind(&c.AdminPort),
			"Port for /wait-for-drain, /health and /app-health; 0 = off."},
		{"AUTOSCALER_METRICS_PORT", "autoscaler-metrics-port", "9090", portOrOff.bind(&c.AutoscalerMetricsPort),
			"Port for Knative's autoscaler; 0 = off."},
		{"METRICS_PORT", "metrics-port", "9091", portOrOff.bind(&c.MetricsPort),
			"Port for Prometheus, if SERVING_REQUEST_METRICS_BACKEND is prometheus; 0 = off."},
		{"STATUS_PORT", "status-port", "8023", portOrOff.bind(&c.StatusPort),
			"Port for the status page, on 127.0.0.1 only; 0 = off."},
		{"PROFILING_PORT", "profiling-port", "8008", portOrOff.bind(&c.ProfilingPort),
			"Port for pprof, if ENABLE_PROFILING is true; 0 = off."},
		{"PROFILING_ADDRESS", "profiling-address", "(LISTEN_ADDRESS)", address.bind(&c.ProfilingAddress),
			"Address on which pprof listens."},
	}
}

func metricsRows(c *Config) []row {
	return []row{
		{"OBSERVABILITY_CONFIG", "observability-config", "(none)", observabilityConfig.bind(&c.observability),
			"Knative's settings for metrics, tracing, profiling and the request log; each separate setting takes precedence over it."},
		{"METRICS_NAMES", "metrics-names", "current", wordKind("current", "legacy", "both").bind(&c.MetricsNames),
			"Generation of Knative's metric names."},
		{"SERVING_REQUEST_METRICS_BACKEND requestMetrics.protocol", "metrics", "prometheus", metricsBackend.bind(&c.MetricsBackend),
			"Exporter of metrics: served on METRICS_PORT (prometheus), or sent to METRICS_COLLECTOR_ADDRESS as OTLP (grpc, http/protobuf). " +
				"opencensus and stackdriver, of earlier versions of Knative, count as prometheus."},
		{"METRICS_COLLECTOR_ADDRESS", "metrics-collector", "(none)", endpoint.bind(&c.MetricsCollector),
			"Collector of metrics."},
		{"TRACING_CONFIG_BACKEND tracing.protocol", "tracing", "none", wordKind("none", "zipkin", "grpc", "http/protobuf", "stdout", "stackdriver").bind(&c.Tracing.Protocol),
			"Exporter of traces. stackdriver, of earlier versions of Knative, counts as none."},
		{"TRACING_CONFIG_ZIPKIN_ENDPOINT tracing.endpoint", "tracing-endpoint", "(none)", endpoint.bind(&c.Tracing.Endpoint),
			"Collector of traces, for any protocol."},
		{"TRACING_CONFIG_SAMPLE_RATE tracing.samplingRate", "tracing-sample-rate", "0.1", rate.bind(&c.Tracing.SamplingRate),
			"Sampling rate of traces for requests without a sampling decision of the sender. With 0 or 1, no request or every request is traced, regardless of that decision."},
		{"TRACING_CONFIG_DEBUG", "tracing-debug", "false", yesNo.bind(&c.Tracing.Debug),
			"Trace every request."},
		{"TRACING_ATTRIBUTES", "tracing-attributes", "current", either("current", "legacy").bind(&c.Tracing.LegacyAttributes),
			"Names of the attributes of spans: the current semantic conventions of OpenTelemetry, or the earlier ones."},
		{"ENABLE_PROFILING", "profiling", "false", yesNo.bind(&c.Profiling),
			"Serve pprof on PROFILING_PORT."},
	}
}

var metricsBackend = wordKind("none", "prometheus", "grpc", "http/protobuf", "opencensus", "stackdriver")

func logRows(c *Config) []row {
	return []row{
		{"SERVING_LOGGING_CONFIG", "logging-config", "(JSON to stderr)", loggingConfig.bind(&c.LoggingConfig),
			"Configuration of zap for the gate's own log."},
		{"SERVING_LOGGING_LEVEL", "log-level", "(level of SERVING_LOGGING_CONFIG, else info)", logLevel.bind(&c.LogLevel),
			"Lowest level that is logged."},
		{"SERVING_ENABLE_REQUEST_LOG .enableRequestLog", "request-log", "false", yesNo.live(&c.RequestLog),
			"Write a line for each request to stdout. The gate's own log on a terminal has a line for each request even without this setting, unless it is set to false."},
		{"SERVING_REQUEST_LOG_TEMPLATE .requestLogTemplate", "request-log-template", "(a JSON line)", logTemplate.live(&c.RequestLogTemplate),
			"Content of a line of the request log: a Go template over .Request, .Response, .Revision and .TraceID, or \"json\" for the default line " +
				"with times, outcome and bytes."},
		{"SERVING_ENABLE_PROBE_REQUEST_LOG .enableProbeRequestLog", "probe-request-log", "false", yesNo.live(&c.RequestLogProbes),
			"Write lines for probes too."},
	}
}

func tlsRows(c *Config) []row {
	return []row{
		{"CERT_DIR", "cert-dir", "/var/lib/knative/certs", directory.bind(&c.TLS.Dir),
			"Directory of tls.crt and tls.key, or of credentialbundle.pem with key and certificates; reloaded when they change."},
		{"QUEUE_PROXY_TLS_MIN_VERSION", "tls-min-version", "(1.2)", tlsVersion.bind(&c.TLS.MinVersion),
			"Lowest version of TLS."},
		{"QUEUE_PROXY_TLS_MAX_VERSION", "tls-max-version", "(1.3)", tlsVersion.bind(&c.TLS.MaxVersion),
			"Highest version of TLS."},
		{"QUEUE_PROXY_TLS_CIPHER_SUITES", "tls-cipher-suites", "(those of Go)", cipherSuites.bind(&c.TLS.CipherSuites),
			"Cipher suites to choose from, for TLS 1.2."},
		{"QUEUE_PROXY_TLS_CURVE_PREFERENCES", "tls-curve-preferences", "(those of Go)", curves.bind(&c.TLS.Curves),
			"Key exchanges to choose from."},
		{"TLS_CLIENT_CA", "tls-client-ca", "(none: clients need no certificate)", file.bind(&c.TLS.ClientCA),
			"File of the certificates, in PEM, one of which must have signed the client's certificate; reloaded when it changes."},
		{"TLS_CLIENT_SANS", "tls-client-sans", "(any that TLS_CLIENT_CA signed)", certNames.bind(&c.TLS.ClientSANs),
			"DNS names and URIs, one of which a client's certificate must have; compared exactly, without expanding wildcards."},
		{"TLS_ONLY", "tls-only", "false", yesNo.bind(&c.Gate.TLSOnly),
			"Reject traffic on QUEUE_SERVING_PORT with 403; probes are still answered there."},
		{"ROOT_CA", "root-ca", "(none)", longText.bind(&c.RootCA),
			"Certificates in PEM that Knative passes to its sidecars; trusted for UPSTREAM_TLS if UPSTREAM_TLS_CA is not set."},
	}
}

func identityRows(c *Config) []row {
	return []row{
		{"SERVING_NAMESPACE", "namespace", "(none)", freeText.bind(&c.Identity.Namespace),
			"Namespace, for labels and logs."},
		{"SERVING_CONFIGURATION", "configuration", "(none)", freeText.bind(&c.Identity.Configuration),
			"Knative configuration, for labels and logs."},
		{"SERVING_REVISION", "revision", "(none)", freeText.bind(&c.Identity.Revision),
			"Knative revision, for labels and logs."},
		{"SERVING_SERVICE", "service", "(none)", freeText.bind(&c.Identity.Service),
			"Knative service, for labels and logs."},
		{"SERVING_POD", "pod", "(host name)", freeText.bind(&c.Identity.Pod),
			"Name of the pod, for labels and logs."},
		{"SERVING_POD_IP", "pod-ip", "(none)", freeText.bind(&c.PodIP),
			"Address of the pod, for the request log."},
		{"POD_NAME", "pod-name", "(none)", freeText.bind(&c.ignored.podName),
			noEffect + "."},
		{"HOST_IP", "host-ip", "(none)", freeText.bind(&c.ignored.hostIP),
			noEffect + "."},
		{"SYSTEM_NAMESPACE", "system-namespace", "(none)", freeText.bind(&c.ignored.systemNamespace),
			noEffect + "."},
	}
}

func serviceRows(c *Config) []row {
	return []row{
		{"ANNOTATIONS_FILE", "annotations-file", "/etc/podinfo/annotations", file.bind(&c.AnnotationsFile),
			"File with the pod's annotations in the form of the downward API. Annotations " + AnnotationPrefix + "FLAG set live settings, " +
				"and are read again when they change. They take precedence over SETTINGS_FILE."},
		{"SETTINGS_FILE", "settings-file", "(none)", file.bind(&c.SettingsFile),
			"File with live settings in the same form, a line FLAG=\"VALUE\" for each, such as a file of a mounted ConfigMap; read again when it changes. " +
				"It takes precedence over flags and variables."},
		{"SETTINGS_ALLOW", "settings-allow", "(all live settings)", liveNames.bind(&c.SettingsAllow),
			"Flags of the live settings that ANNOTATIONS_FILE and SETTINGS_FILE may set; none: no setting."},
	}
}

// setting is a row bound to a Config, with the origin and problems of its value.
type setting struct {
	row
	group     string
	name      string
	source    source
	found     string // the variable, or the path in OBSERVABILITY_CONFIG
	isFlagged bool   // set by a flag; flagText may be empty
	flagText  string
	problems  []error
	ignored   []string // warnings about ignored parts of the value
}

// table binds the rows to c.
func table(c *Config) []setting {
	all := make([]setting, 0, 128)
	for _, g := range groups {
		for _, r := range g.rows(c) {
			name, _, _ := strings.Cut(r.names, " ")
			all = append(all, setting{row: r, group: g.title, name: name})
		}
	}
	return all
}

// standardText returns the default as text that parse accepts. It returns "" if there is
// no default or if the default is computed.
func (r *row) standardText() string {
	if strings.HasPrefix(r.standard, "(") {
		return ""
	}
	text, _, _ := strings.Cut(r.standard, " = ")
	return text
}

// standardShown returns the default as users see it. exact reports whether this is
// exactly the text that parse accepts.
func (r *row) standardShown() (text string, exact bool) {
	text = strings.TrimSuffix(strings.TrimPrefix(r.standard, "("), ")")
	return text, text == r.standardText()
}

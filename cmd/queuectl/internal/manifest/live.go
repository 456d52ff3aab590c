package manifest

// LiveSettings lists the flags of the gate's settings that can change while it runs, in
// the order of docs/configuration.md. A test compares them.
var LiveSettings = []string{
	"concurrency", "queue-capacity", "queue-max-wait", "queue-fair-by", "queue-priority-by", "queue-evict", "queue-cost-by", "queue-cost-limit", "engine-max-waiting", "engine-max-kv", "queue-deadline-by", "queue-retry-after",
	"queue-refusal-status", "timeout", "response-start-timeout", "idle-timeout", "tunnel-max", "wait-keepalive", "wait-page", "upstream-wait", "upstream-restart-wait",
	"request-log", "request-log-template", "probe-request-log",
}

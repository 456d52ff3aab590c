package manifest

// LiveSettings are the flags of the settings that can change while the gate runs, in
// the order of docs/configuration.md.
var LiveSettings = []string{
	"concurrency", "queue-capacity", "queue-max-wait", "queue-fair-by", "queue-priority-by", "queue-evict", "queue-cost-by", "queue-cost-limit", "engine-max-waiting", "engine-max-kv", "queue-deadline-by", "queue-retry-after",
	"queue-refusal-status", "timeout", "response-start-timeout", "idle-timeout", "tunnel-max", "wait-keepalive", "wait-page", "upstream-wait", "upstream-restart-wait",
	"request-log", "request-log-template", "probe-request-log",
}

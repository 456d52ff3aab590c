package requestlog

import (
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/queuegate/queuegate/pkg/gate"
)

// directLine renders Knative's default line and Preset without a template.
type directLine struct{ extended bool }

// directFields are the header fields that directLine reads.
var directFields = []string{"User-Agent", "Referer", "Content-Length"}

// knativeDefaults are the templates that different versions of Knative's controller
// set by default.
var knativeDefaults = [...]string{
	knativeDefault + `"{{index .Request.Header "X-B3-Traceid"}}"}`,
	knativeDefault + `"{{.TraceID}}"}`,
}

const knativeDefault = `{"httpRequest": {` +
	`"requestMethod": "{{.Request.Method}}", ` +
	`"requestUrl": "{{js .Request.RequestURI}}", ` +
	`"requestSize": "{{.Request.ContentLength}}", ` +
	`"status": {{.Response.Code}}, ` +
	`"responseSize": "{{.Response.Size}}", ` +
	`"userAgent": "{{js .Request.UserAgent}}", ` +
	`"remoteIp": "{{js .Request.RemoteAddr}}", ` +
	`"serverIp": "{{.Revision.PodIP}}", ` +
	`"referer": "{{js .Request.Referer}}", ` +
	`"latency": "{{.Response.Latency}}s", ` +
	`"protocol": "{{.Request.Proto}}"}, "traceId": `

// isKnativeDefault reports whether text is one of knativeDefaults, regardless of white
// space.
func isKnativeDefault(text string) bool {
	text = strings.Join(strings.Fields(text), " ")
	for _, known := range knativeDefaults {
		if text == known {
			return true
		}
	}
	return false
}

func (d directLine) appendLine(b []byte, e *Entry, revision *RevisionInfo) ([]byte, error) {
	r := &e.result
	b = append(b, '{')
	if d.extended {
		b = append(b, `"timestamp": "`...)
		b = r.Ended.UTC().AppendFormat(b, "2006-01-02T15:04:05.000000Z07:00")
		b = append(b, `", `...)
	}
	b = append(b, `"httpRequest": {"requestMethod": `...)
	b = appendJSON(b, e.method())
	b = append(b, `, "requestUrl": `...)
	b = appendJSON(b, e.target())
	b = append(b, `, "requestSize": "`...)
	b = strconv.AppendInt(b, requestSize(e), 10)
	b = append(b, `", "status": `...)
	b = strconv.AppendInt(b, int64(r.Status), 10)
	b = append(b, `, "responseSize": "`...)
	b = strconv.AppendInt(b, r.ResponseBytes, 10)
	b = append(b, `", "userAgent": `...)
	b = appendJSON(b, e.first("User-Agent"))
	b = append(b, `, "remoteIp": "`...)
	if e.peer.IsValid() {
		start := len(b)
		b = e.peer.AppendTo(b) // escaped below, because an IPv6 zone may contain any character
		b = escapeJSONFrom(b, start)
	}
	b = append(b, `", "serverIp": `...)
	b = appendJSON(b, revision.PodIP)
	b = append(b, `, "referer": `...)
	b = appendJSON(b, e.first("Referer"))
	b = append(b, `, "latency": "`...)
	b = strconv.AppendFloat(b, r.Total.Seconds(), 'f', -1, 64)
	b = append(b, `s", "protocol": `...)
	b = appendJSON(b, e.protocol())
	b = append(b, '}')
	if d.extended {
		b = append(b, `, "host": `...)
		b = appendJSON(b, e.host())
		b = append(b, `, "outcome": `...)
		b = appendJSON(b, r.Outcome)
		b = appendMilliseconds(b, `, "queue_ms": `, r.Queued)
		b = appendMilliseconds(b, `, "upstream_ms": `, r.Upstream)
		b = appendMilliseconds(b, `, "total_ms": `, r.Total)
		b = append(b, `, "request_bytes": `...)
		b = strconv.AppendInt(b, r.RequestBytes, 10)
		b = append(b, `, "response_bytes": `...)
		b = strconv.AppendInt(b, r.ResponseBytes, 10)
	}
	b = append(b, `, "traceId": `...)
	b = appendJSON(b, traceID(e))
	return append(b, '}'), nil
}

func appendMilliseconds(b []byte, name string, d time.Duration) []byte {
	b = append(b, name...)
	return strconv.AppendFloat(b, float64(d.Microseconds())/1000, 'f', -1, 64)
}

// requestSize returns Content-Length, or the number of received bytes if it is absent
// or invalid.
func requestSize(e *Entry) int64 {
	n, err := strconv.ParseInt(string(e.first("Content-Length")), 10, 64)
	if err != nil || n < 0 {
		return e.result.RequestBytes
	}
	return n
}

func traceID(e *Entry) string {
	if e.result.TraceID == (gate.TraceID{}) {
		return ""
	}
	return e.result.TraceID.String()
}

func appendJSON[T []byte | string](b []byte, text T) []byte {
	b = append(b, '"')
	b = appendJSONText(b, text)
	return append(b, '"')
}

// appendJSONText appends the content of a JSON string (RFC 8259 section 7), as valid
// UTF-8. It also escapes Unicode line ends, such as U+2028.
func appendJSONText[T []byte | string](b []byte, text T) []byte {
	s := string(text)
	clean := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' && c != 0x7f && c < utf8.RuneSelf {
			i++
			continue
		}
		r, size := rune(c), 1
		if c >= utf8.RuneSelf {
			r, size = utf8.DecodeRuneInString(s[i:])
			if !breaksLine(r) && (r != utf8.RuneError || size > 1) {
				i += size
				continue
			}
		}
		b = append(b, s[clean:i]...)
		switch r {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, `\n`...)
		case '\r':
			b = append(b, `\r`...)
		case '\t':
			b = append(b, `\t`...)
		default:
			b = appendU(b, r)
		}
		i += size
		clean = i
	}
	return append(b, s[clean:]...)
}

// escapeJSONFrom escapes b[start:] as the content of a JSON string. It does not change
// the bytes before this part.
func escapeJSONFrom(b []byte, start int) []byte {
	return appendJSONText(b[:start], string(b[start:]))
}

// breaksLine reports whether r is a C1 control character or a Unicode line end.
func breaksLine(r rune) bool { return r >= 0x80 && r <= 0x9f || r == 0x2028 || r == 0x2029 }

const upperHex = "0123456789ABCDEF"

// appendU appends \uXXXX for r, which must be at most U+FFFF.
func appendU(b []byte, r rune) []byte {
	return append(b, '\\', 'u', upperHex[r>>12&15], upperHex[r>>8&15], upperHex[r>>4&15], upperHex[r&15])
}

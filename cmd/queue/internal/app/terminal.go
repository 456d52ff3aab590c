package app

import (
	"net"
	"os"
	"strconv"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/sys/unix"

	"github.com/queuegate/queuegate/cmd/queue/internal/config"
	"github.com/queuegate/queuegate/pkg/gate"
)

// terminal is the readable form of the gate's own log, for terminals.
type terminal struct {
	hasColor    bool
	hasRequests bool
	// replacesLog means that readable lines about requests replace the request log. It is
	// true if the request log is on, has the default form, JSON, and would go to a
	// terminal too.
	replacesLog bool
}

// newTerminal returns nil unless the log is in the default form and goes to a terminal.
func newTerminal(cfg *config.Config) *terminal {
	if cfg.LoggingConfig != "" || !isTerminal(os.Stderr) {
		return nil
	}
	t := &terminal{
		hasColor:    os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb", // https://no-color.org
		hasRequests: cfg.RequestLog || !cfg.IsSet("SERVING_ENABLE_REQUEST_LOG"),
	}
	if cfg.RequestLog && isTerminal(os.Stdout) { // stdout shows the requests
		t.replacesLog = cfg.RequestLogTemplate == ""
		t.hasRequests = t.replacesLog
	}
	return t
}

func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// form configures c so that a line consists of the time, level, message and fields.
func (t *terminal) form(c *zap.Config) {
	e := &c.EncoderConfig
	c.Encoding, c.DisableCaller = "console", true
	e.NameKey, e.ConsoleSeparator = "", "  "
	e.EncodeTime, e.EncodeLevel = zapcore.TimeEncoderOfLayout("15:04:05.000"), zapcore.CapitalLevelEncoder
	e.EncodeDuration = zapcore.StringDurationEncoder
	if t.hasColor {
		e.EncodeLevel = zapcore.CapitalColorLevelEncoder
	}
}

// Serving logs the version and the ports. The port of a server that is off is 0. On a
// terminal, Serving instead logs the addresses to open in a browser.
func (l *Log) Serving(cfg *config.Config, version string) {
	if l.terminal == nil {
		l.Info("serving", zap.String("version", version), zap.Int("port", cfg.ServingPort), zap.Int("userPort", cfg.UserPort),
			zap.Int("adminPort", cfg.AdminPort), zap.Int("autoscalerMetricsPort", cfg.AutoscalerMetricsPort),
			zap.Int("metricsPort", cfg.MetricsPort), zap.Int("statusPort", cfg.StatusPort))
		return
	}
	host := cfg.ListenAddress
	if ip := net.ParseIP(host); ip == nil || ip.IsUnspecified() {
		host = "localhost"
	}
	l.Info("serving on " + pageAt(host, cfg.ServingPort) + " for the application on port " + strconv.Itoa(cfg.UserPort))
	if cfg.StatusPort != 0 {
		l.Info("status page: " + pageAt(statusAddress, cfg.StatusPort))
	}
}

func pageAt(host string, port int) string {
	return "http://" + net.JoinHostPort(host, strconv.Itoa(port)) + "/"
}

// colors maps the first digit of a status to its color (ECMA-48, SGR): 2xx green, 3xx
// cyan, 4xx yellow, 5xx red.
var colors = [...]string{2: "\x1b[32m", 3: "\x1b[36m", 4: "\x1b[33m", 5: "\x1b[31m"}

const colorEnd = "\x1b[0m"

// shownTarget is the maximum length of a target in a line, in bytes.
const shownTarget = 200

// request returns the line for a request that has ended.
func (t *terminal) request(x *gate.Record) string {
	b := appendPrintable(nil, x.Method, shownTarget)
	b = append(b, ' ')
	b = appendPrintable(b, x.Target, shownTarget)
	b = append(b, ' ')
	first := x.Status / 100
	isColored := t.hasColor && first < len(colors) && colors[first] != ""
	if isColored {
		b = append(b, colors[first]...)
	}
	b = strconv.AppendInt(b, int64(x.Status), 10)
	if isColored {
		b = append(b, colorEnd...)
	}
	b = append(b, ' ')
	b = append(b, rounded(x.Took()).String()...)
	if x.Outcome != gate.Served {
		b = append(append(append(b, " ("...), x.Outcome.String()...), ')')
	}
	return string(b)
}

// appendPrintable appends at most limit bytes of text from a client. Bytes that could
// control the terminal are percent-encoded.
func appendPrintable(b, text []byte, limit int) []byte {
	for i, c := range text {
		switch {
		case i == limit:
			return append(b, "..."...)
		case c <= ' ' || c >= 0x7f:
			const digits = "0123456789ABCDEF"
			b = append(b, '%', digits[c>>4], digits[c&15])
		default:
			b = append(b, c)
		}
	}
	return b
}

func rounded(d time.Duration) time.Duration {
	switch {
	case d >= time.Second:
		return d.Round(10 * time.Millisecond)
	case d >= time.Millisecond:
		return d.Round(100 * time.Microsecond)
	}
	return d.Round(time.Microsecond)
}

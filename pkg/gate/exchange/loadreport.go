package exchange

import (
	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/wire"
	"github.com/queuegate/queuegate/pkg/gate/wire/orca"
)

// LoadReports determines which responses carry an ORCA load report.
type LoadReports uint8

// The settings of load reports.
const (
	NoLoadReports        LoadReports = iota
	RequestedLoadReports             // responses to trusted sources that send endpoint-load-metrics-format
	// AllLoadReports adds a report to every response. The default format is binary for
	// gRPC calls and TEXT for others.
	AllLoadReports
)

// LoadReport returns the load report as a field line for the head of a final response;
// nil = the gate adds no line. The returned report includes the values of the container's
// report, which is removed from the head. The report of a gRPC call belongs in the
// trailers (gRFC A51), where ResponseTrailers adds it. The head has it only if the
// response has no body or the container has sent its report in the head.
func (x *Exchange) LoadReport(res *wire.Response) []byte {
	if x.gate.load == nil {
		return nil
	}
	req, _ := x.down.Request()
	format := x.gate.loadFormat(req)
	if format == orca.None || x.state == StateTunnelling {
		return nil
	}
	received, err := res.LoadReport()
	if err != nil {
		return nil // several reports or an unreadable one, which the client gets unchanged
	}
	bodyless := res.Body == wire.NoBody || res.Body == wire.BodyLength && res.Length == 0
	if received == nil && !bodyless && req.GRPC() {
		req.SetLoadReport(format, wire.LoadReportDue)
		return nil
	}
	res.ReplaceLoadReport()
	req.SetLoadReport(format, wire.LoadReportSent)
	return x.gate.loadLine(format, received, x.clock())
}

// ResponseTrailers returns the trailers for the client. They depend on what LoadReport
// has done before:
//
//   - If LoadReport has added a report to the head, the container's report is removed
//     from the trailers.
//   - If LoadReport has left the report for the trailers, they get a report with the
//     values of the gate and of the container, instead of the container's report.
//   - Otherwise the trailers are unchanged.
func (x *Exchange) ResponseTrailers(trailers []byte) []byte {
	if x.gate.load == nil || len(trailers) == 0 {
		return trailers
	}
	req, _ := x.down.Request()
	state := req.LoadReport()
	if state == wire.LoadReportUntouched {
		return trailers
	}
	rest, received := wire.CutLoadReport(trailers)
	if state == wire.LoadReportDue {
		rest = append(rest, x.gate.loadLine(req.LoadFormat(), received, x.clock())...)
	}
	return rest
}

// failedFor reports whether an exchange that ends with o counts as an error in load
// reports: its status is 5xx, or the client did not get the complete response.
func (x *Exchange) failedFor(o gate.Outcome) bool {
	return x.Status >= 500 || x.settings.statusOf(o) >= 500 || o.Class() == gate.ClassFailed
}

func (g *Gate) loadFormat(req *wire.Request) orca.Format {
	if g.LoadReports == NoLoadReports {
		return orca.None
	}
	format := req.LoadFormat()
	if format == orca.None && g.LoadReports == AllLoadReports {
		if req.GRPC() {
			return orca.Binary
		}
		return orca.Text
	}
	return format
}

// loadLine returns a load report in the format f as a field line. The parameter received
// is the container's report; nil = none. A value that the container has reported takes
// precedence over the gate's value.
func (g *Gate) loadLine(f orca.Format, received *orca.Report, now int64) []byte {
	report := g.load.report(now)
	if received != nil {
		received.Merge(&report)
		report = *received
	}
	return report.AppendField(nil, f)
}

// ReportLoad adds a load report to r, the local reply with which x has ended.
func (x *Exchange) ReportLoad(r *gate.Reply, req *wire.Request) {
	if x.gate.load == nil {
		return
	}
	if f := x.gate.loadFormat(req); f != orca.None {
		r.LoadReport = string(x.gate.loadLine(f, nil, x.clock()))
	}
}

// Load returns the load at now, a time from Exchange.Now. Load reports must be enabled.
func (g *Gate) Load(now int64) orca.Report { return g.load.report(now) }

// Now returns the time on the clock of the exchange.
func (x *Exchange) Now() int64 { return x.clock() }

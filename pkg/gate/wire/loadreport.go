package wire

import (
	"bytes"

	"github.com/queuegate/queuegate/pkg/gate/internal/field"
	"github.com/queuegate/queuegate/pkg/gate/wire/orca"
)

// LoadReport is the state of the ORCA load report in the response to a request.
type LoadReport uint8

// The states of a load report.
const (
	// LoadReportUntouched means that the gate adds no report.
	LoadReportUntouched LoadReport = iota
	// LoadReportSent means that the gate has put a report into the head of the response.
	// The gate must then remove the container's report from the trailers.
	LoadReportSent
	// LoadReportDue means that the gate must add a report to the trailers, because it has
	// not put one into the head.
	LoadReportDue
)

// LoadFormat returns the format in which the request asks for a load report.
func (r *Request) LoadFormat() orca.Format {
	if !r.hasRare {
		return orca.None
	}
	return r.rare.loadFormat
}

// SetLoadReport sets the format and the state of the load report.
func (r *Request) SetLoadReport(f orca.Format, state LoadReport) {
	m := r.ensureRare()
	m.loadFormat, m.loadReport = f, state
}

// LoadReport returns the state set by SetLoadReport.
func (r *Request) LoadReport() LoadReport {
	if !r.hasRare {
		return LoadReportUntouched
	}
	return r.rare.loadReport
}

// LoadReport returns the load report in the head of a response; nil = none. It returns an
// error if there are several or the report is unreadable.
func (r *Response) LoadReport() (report *orca.Report, err error) {
	for i := range r.Fields {
		f := &r.Fields[i]
		if f.kind != field.LoadReport {
			continue
		}
		if report != nil {
			return nil, ErrMalformed
		}
		if report, err = orca.ParseField(r.name(f), r.value(f)); err != nil {
			return nil, err
		}
	}
	return report, nil
}

// ReplaceLoadReport replaces the received load report by Framing.Load.
func (r *Response) ReplaceLoadReport() {
	for i := range r.Fields {
		if f := &r.Fields[i]; f.kind == field.LoadReport {
			f.out = loadReportLine
		}
	}
}

// CutLoadReport removes the load reports from trailers. It returns the other trailers,
// and the first readable report; nil = none. The trailers are field lines with their
// CRLF.
func CutLoadReport(trailers []byte) (rest []byte, report *orca.Report) {
	for line := range bytes.SplitAfterSeq(trailers, []byte("\r\n")) {
		name, value, _ := bytes.Cut(line, []byte{':'})
		if field.Of(name) != field.LoadReport {
			rest = append(rest, line...)
			continue
		}
		if r, err := orca.ParseField(name, bytes.TrimSpace(value)); err == nil && report == nil {
			report = r
		}
	}
	return rest, report
}

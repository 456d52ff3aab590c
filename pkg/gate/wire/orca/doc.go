// Package orca reads and writes ORCA load reports (xds.data.orca.v3.OrcaLoadReport) in
// the three forms that Envoy and gRPC exchange, and the messages of
// xds.service.orca.v3.OpenRcaService. It contains its own protobuf code, because the
// generated types depend on the whole xDS API.
package orca

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// readinessProbeValue is the JSON of SERVING_READINESS_PROBE. It is kept as given once its outline is right: pkg/probe reads it.
type readinessProbeValue string

const probeHandlers = "httpGet, tcpSocket or grpc"

func (v *readinessProbeValue) set(text string) error {
	switch firstByte(text) {
	case '{':
		if err := checkProbe([]byte(text)); err != nil {
			return err
		}
	case '[':
		var probes []json.RawMessage
		if err := json.Unmarshal([]byte(text), &probes); err != nil {
			return jsonFault(err)
		}
		for i, probe := range probes {
			if firstByte(string(probe)) != '{' {
				return fmt.Errorf("element %d is not an object", i)
			}
			if err := checkProbe(probe); err != nil {
				return fmt.Errorf("element %d: %w", i, err)
			}
		}
	default:
		return errNotAccepted
	}
	*v = readinessProbeValue(text)
	return nil
}
func (v *readinessProbeValue) text() string { return string(*v) }
func (*readinessProbeValue) accepts() string {
	return "a Kubernetes probe in JSON with " + probeHandlers + ", or an array of such"
}
func (*readinessProbeValue) hint() string { return "JSON" }

// checkProbe refuses a probe without a handler, which could never succeed, and exec, which cannot run in another container.
func checkProbe(text []byte) error {
	var handlers struct {
		Exec      json.RawMessage `json:"exec"`
		HTTPGet   json.RawMessage `json:"httpGet"`
		TCPSocket json.RawMessage `json:"tcpSocket"`
		GRPC      json.RawMessage `json:"grpc"`
	}
	if err := json.Unmarshal(text, &handlers); err != nil {
		return jsonFault(err)
	}
	switch {
	case isPresent(handlers.Exec):
		return errors.New("exec cannot run from here: use " + probeHandlers)
	case !isPresent(handlers.HTTPGet) && !isPresent(handlers.TCPSocket) && !isPresent(handlers.GRPC):
		return errors.New("the probe has no handler: leave the setting empty for a container that is always ready")
	}
	return nil
}

// proberMapValue is the JSON of KUBE_APP_PROBERS; pkg/probe reads it.
type proberMapValue string

func (v *proberMapValue) set(text string) error {
	if firstByte(text) != '{' {
		return errNotAccepted
	}
	var probers map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &probers); err != nil {
		return jsonFault(err)
	}
	*v = proberMapValue(text)
	return nil
}
func (v *proberMapValue) text() string { return string(*v) }
func (*proberMapValue) accepts() string {
	return "a JSON object from paths such as /app-health/web/readyz to probes"
}
func (*proberMapValue) hint() string { return "JSON" }

func firstByte(text string) byte {
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case ' ', '\t', '\r', '\n':
		default:
			return text[i]
		}
	}
	return 0
}

func isPresent(value json.RawMessage) bool {
	return len(value) > 0 && !bytes.Equal(value, []byte("null"))
}

// jsonFault says where JSON is not what it should be, without Go's words for it.
func jsonFault(err error) error {
	var wrongType *json.UnmarshalTypeError
	if errors.As(err, &wrongType) {
		if wrongType.Field == "" {
			return fmt.Errorf("%s is in the wrong place", wrongType.Value)
		}
		return fmt.Errorf("%s cannot be %s", wrongType.Field, wrongType.Value)
	}
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return fmt.Errorf("not JSON: %s at byte %d", syntax.Error(), syntax.Offset)
	}
	return errors.New("not JSON")
}

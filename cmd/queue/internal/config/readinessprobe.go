package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/queuegate/queuegate/pkg/probe"
)

// readinessProbeValue is the JSON of SERVING_READINESS_PROBE, kept as given
// once pkg/probe has read it without a complaint.
type readinessProbeValue string

const probeHandlers = "httpGet, tcpSocket or grpc"

func (v *readinessProbeValue) set(text string) error {
	if b := firstByte(text); b != '{' && b != '[' {
		return errNotAccepted
	}
	// Whether an empty array is allowed depends on another setting, and no
	// port is wrong for a probe that names none: Load sees to the first.
	if _, err := probe.ParseSpec(text, probe.SpecOptions{UserPort: 1, MultiContainer: true}); err != nil {
		return oneLineError(err)
	}
	*v = readinessProbeValue(text)
	return nil
}
func (v *readinessProbeValue) text() string { return string(*v) }
func (*readinessProbeValue) accepts() string {
	return "a Kubernetes probe in JSON with " + probeHandlers + ", or an array of such"
}
func (*readinessProbeValue) hint() string { return "JSON" }

// proberMapValue is the JSON of KUBE_APP_PROBERS, read as SERVING_READINESS_PROBE is.
type proberMapValue string

func (v *proberMapValue) set(text string) error {
	if firstByte(text) != '{' {
		return errNotAccepted
	}
	if _, err := probe.ParseAppProbes(text, probe.AppProbeOptions{}); err != nil {
		return oneLineError(err)
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

// oneLineError joins the lines of several problems, because a setting has one.
func oneLineError(err error) error {
	return errors.New(strings.ReplaceAll(err.Error(), "\n", "; "))
}

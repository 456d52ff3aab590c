package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/queuegate/queuegate/pkg/probe"
)

var (
	// readinessProbe is kept as given once pkg/probe has read it without a complaint.
	readinessProbe = jsonKind("none, or a Kubernetes probe in JSON with "+probe.HandlersText+", or an array of such", "{[n",
		func(text string) error {
			// Whether an empty array is allowed depends on another setting, and no
			// port is wrong for a probe that names none: Load sees to the first.
			_, err := probe.ParseSpec(text, probe.SpecOptions{UserPort: 1, MultiContainer: true})
			return oneLineError(err)
		})
	appProbers = jsonKind("a JSON object from paths such as /app-health/web/readyz to probes", "{",
		func(text string) error {
			_, err := probe.ParseAppProbes(text, probe.AppProbeOptions{})
			return oneLineError(err)
		})
	loggingConfig = jsonKind("a zap configuration in JSON", "{",
		func(text string) error {
			_, _, err := readLogging(text)
			return err
		})
	observabilityConfig = jsonKind("a JSON object as Knative makes it", "{",
		func(text string) error {
			var object map[string]json.RawMessage
			return jsonFault(json.Unmarshal([]byte(text), &object))
		})
)

// jsonKind is JSON that begins with one of the bytes of open and is kept as given once check accepts it.
func jsonKind(wants, open string, check func(string) error) *kind[string] {
	return textKind("JSON", wants, maskJSON, func(text string) error {
		if !strings.Contains(open, string(firstByte(text))) {
			return errNotAccepted
		}
		return check(text)
	})
}

func firstByte(text string) byte {
	if text = strings.TrimLeft(text, " \t\r\n"); text != "" {
		return text[0]
	}
	return 0
}

// jsonFault says where JSON is not what it should be, without Go's words for it.
func jsonFault(err error) error {
	if err == nil {
		return nil
	}
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
	if err == nil {
		return nil
	}
	return errors.New(strings.ReplaceAll(err.Error(), "\n", "; "))
}

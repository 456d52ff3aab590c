package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/queuegate/queuegate/pkg/probe"
)

var (
	// readinessProbe is stored unparsed after pkg/probe has validated it.
	readinessProbe = jsonKind("none, or a Kubernetes probe in JSON with "+probe.HandlersText+", or an array of such", "{[n",
		func(text string) error {
			// MultiContainer allows an empty array; checkCombinations rejects it later
			// if another setting does not allow it. UserPort is a placeholder, because
			// the result is not used.
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

// jsonKind returns a kind for JSON that begins with a byte in open. The text is stored
// unparsed.
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

// jsonFault rewrites an error of encoding/json without Go terms.
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

// oneLineError joins several problems into one line.
func oneLineError(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(strings.ReplaceAll(err.Error(), "\n", "; "))
}

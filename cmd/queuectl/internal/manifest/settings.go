package manifest

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// settingsJSON is the table of the gate's settings, written by
// "go test ./cmd/queue/internal/config -run Queuectl -update".
//
//go:embed settings.json
var settingsJSON []byte

// gateSetting is a setting of the gate.
type gateSetting struct {
	Variable    string `json:"variable"`
	Flag        string `json:"flag"`
	ValidValues string `json:"wants"` // description of the valid values, from docs/configuration.md
}

var gateSettings = func() (all []gateSetting) {
	if err := json.Unmarshal(settingsJSON, &all); err != nil {
		panic("BUG: settings.json: " + err.Error())
	}
	return all
}()

// written are the settings that Inject derives from the pod.
var written = map[string]string{
	"USER_PORT": "--user-port", "SERVING_READINESS_PROBE": "the container's readinessProbe", "ENABLE_MULTI_CONTAINER_PROBES": "the containers' readinessProbes",
	"CONTAINER_NAMES": "the names of the containers", "KUBE_APP_PROBERS": "the containers' probes",
	"QUEUE_SERVING_PORT": "the ports that are free", "QUEUE_SERVING_TLS_PORT": "the ports that are free", "ADMIN_PORT": "the ports that are free",
	"AUTOSCALER_METRICS_PORT": "the ports that are free", "METRICS_PORT": "the ports that are free", "STATUS_PORT": "the ports that are free", "SIDE_PORTS": "the ports that are free",
}

// ParseAssignment parses NAME=VALUE, where NAME is the variable or flag of a setting.
func ParseAssignment(assignment string) (variable, value string, err error) {
	name, value, ok := strings.Cut(assignment, "=")
	if !ok {
		return "", "", fmt.Errorf("%q: want NAME=VALUE", assignment)
	}
	i := slices.IndexFunc(gateSettings, func(s gateSetting) bool { return s.Variable == name || s.Flag == name })
	if i < 0 {
		return "", "", fmt.Errorf("%q: the gate has no setting %s%s", assignment, name, similar(name))
	}
	s := gateSettings[i]
	if from, ok := written[s.Variable]; ok {
		return "", "", fmt.Errorf("%q: inject sets %s from %s", assignment, s.Variable, from)
	}
	if !accepts(s.ValidValues, value) {
		return "", "", fmt.Errorf("%s=%q: want %s", name, value, s.ValidValues)
	}
	return s.Variable, value, nil
}

// similar returns ", did you mean X?" for a probable misspelling, or "".
func similar(name string) string {
	best, closest := 3, ""
	for _, s := range gateSettings {
		for _, known := range []string{s.Variable, s.Flag} {
			if len(name) > len(known)+2 || len(known) > len(name)+2 {
				continue
			}
			if d := distance(name, known); d < best {
				best, closest = d, known
			}
		}
	}
	if closest == "" {
		return ""
	}
	return ", did you mean " + closest + "?"
}

// distance returns the edit distance of two short words.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range a {
		diagonal := row[0]
		row[0] = i + 1
		for j := range b {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

var (
	rangeOf  = regexp.MustCompile(`^a (?:whole|port) number from (\d+) to (\d+)`)
	atLeast  = regexp.MustCompile(`^whole (?:seconds|milliseconds), (\d+) or more`)
	wordList = regexp.MustCompile(`^[a-z0-9_./]+(, [a-z0-9_./]+)* or [a-z0-9_./]+$`)
	numeric  = regexp.MustCompile(`^[0-9.]+([a-zµ]+([0-9.]+[a-zµ]+)*|[KMGT]i?)?$`)
)

// accepts reports whether a value may be valid for a setting. The parameter valid is the
// setting's description of valid values (gateSetting.ValidValues). The result is false
// only if the gate certainly rejects the value.
func accepts(valid, value string) bool {
	switch {
	case value == "": // the setting is not set
		return true
	case valid == "true or false":
		_, err := strconv.ParseBool(strings.ToLower(value))
		return err == nil || slices.Contains([]string{"yes", "no", "on", "off"}, strings.ToLower(value))
	case wordList.MatchString(valid):
		fields := strings.FieldsFunc(strings.ReplaceAll(valid, " or ", ", "), func(r rune) bool { return r == ',' || r == ' ' })
		return slices.ContainsFunc(fields, func(word string) bool { return strings.EqualFold(word, value) })
	case rangeOf.MatchString(valid):
		low, high := bounds(rangeOf.FindStringSubmatch(valid))
		n, err := strconv.Atoi(value)
		other := strings.Contains(valid, ", or "+strings.ToLower(value)) || strings.Contains(valid, ", "+strings.ToLower(value)+",") ||
			strings.Contains(valid, "auto:") && strings.HasPrefix(strings.ToLower(value), "auto:")
		return other && err != nil || err == nil && (low <= n && n <= high || n == 0 && strings.Contains(valid, "or 0 for"))
	case atLeast.MatchString(valid):
		least, _ := strconv.Atoi(atLeast.FindStringSubmatch(valid)[1])
		n, err := strconv.ParseInt(value, 10, 64)
		return err == nil && n >= int64(least)
	case strings.HasPrefix(valid, "seconds, "), strings.HasPrefix(valid, "a duration"), strings.HasPrefix(valid, "a size"):
		return numeric.MatchString(value)
	case strings.HasPrefix(valid, "a number from 0 to 1"):
		f, err := strconv.ParseFloat(value, 64)
		return err == nil && f >= 0 && f <= 1
	case strings.HasPrefix(valid, "a JSON object"), strings.HasPrefix(valid, "a zap configuration in JSON"):
		return json.Valid([]byte(value))
	case strings.HasPrefix(valid, "an absolute path"):
		return strings.HasPrefix(value, "/") || strings.Contains(valid, "@name") && strings.HasPrefix(value, "@")
	case strings.HasPrefix(valid, "header:NAME"):
		return strings.Contains(value, ":") || strings.Contains(valid, ", "+value+",")
	}
	return true
}

func bounds(match []string) (low, high int) {
	low, _ = strconv.Atoi(match[1])
	high, _ = strconv.Atoi(match[2])
	return low, high
}

// resourceNames are the resources for which a container has requests and limits.
var resourceNames = []string{"cpu", "memory", "ephemeral-storage"}

// quantity matches a Kubernetes quantity.
var quantity = regexp.MustCompile(`^([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(m|k|[MGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{1,2})?$`)

// amount returns the value of a quantity.
func amount(text string) (float64, bool) {
	m := quantity.FindStringSubmatch(text)
	if m == nil {
		return 0, false
	}
	n, err := strconv.ParseFloat(m[1], 64)
	switch unit := m[2]; {
	case unit == "":
	case unit == "m":
		n /= 1000
	case strings.HasSuffix(unit, "i"):
		n *= math.Pow(1024, float64(strings.Index("KMGTPE", unit[:1])+1))
	case unit[0] == 'e' || unit[0] == 'E' && len(unit) > 1:
		exponent, _ := strconv.Atoi(unit[1:])
		n *= math.Pow10(exponent)
	default:
		n *= math.Pow(1000, float64(strings.Index("kMGTPE", unit)+1))
	}
	return n, err == nil
}

// ParseResources parses a list such as requests.cpu=50m,limits.memory=256Mi. An empty
// quantity removes a request or limit.
func ParseResources(list string) (map[string]string, error) {
	all := map[string]string{}
	for pair := range strings.SplitSeq(list, ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(pair), "=")
		kind, resource, _ := strings.Cut(name, ".")
		if !ok || kind != "requests" && kind != "limits" || !slices.Contains(resourceNames, resource) {
			return nil, fmt.Errorf("%q: want requests.NAME=QUANTITY or limits.NAME=QUANTITY of %s", pair, strings.Join(resourceNames, ", "))
		}
		if _, ok := amount(value); !ok && value != "" {
			return nil, fmt.Errorf("%q: want a quantity of Kubernetes such as 250m, 1 or 64Mi", pair)
		}
		all[name] = value
	}
	return all, nil
}

// checkResources returns an error if a request is higher than its limit.
func checkResources(resources map[string]string) error {
	all := maps.Clone(standardResources)
	maps.Copy(all, resources)
	for _, name := range resourceNames {
		request, hasRequest := amount(all["requests."+name])
		limit, hasLimit := amount(all["limits."+name])
		if hasRequest && hasLimit && request > limit {
			return fmt.Errorf("resources: requests.%s=%s is above limits.%s=%s", name, all["requests."+name], name, all["limits."+name])
		}
	}
	return nil
}

// Check returns an error if options are invalid or contradict each other.
func (o *Options) Check() error {
	for _, name := range o.Accept {
		if !slices.Contains(Hazards, name) {
			return fmt.Errorf("accept %q: want %s", name, strings.Join(Hazards, ", "))
		}
	}
	return checkResources(o.Resources)
}

// applied returns the options for a workload. The workload's annotations
// queuegate.dev/FLAG override o.
func (o *Options) applied(annotations *yaml.Node) (applied, error) {
	a := applied{Image: o.Image, Container: o.Container, UserPort: o.UserPort, LiveSettings: o.LiveSettings,
		Set: map[string]string{}, Resources: map[string]string{}}
	maps.Copy(a.Set, o.Set)
	maps.Copy(a.Resources, o.Resources)
	if o.Concurrency > 0 {
		a.Set["CONTAINER_CONCURRENCY"] = strconv.Itoa(o.Concurrency)
	}
	if annotations == nil || annotations.Kind != yaml.MappingNode {
		return a, nil
	}
	for i := 0; i+1 < len(annotations.Content); i += 2 {
		flag, ok := strings.CutPrefix(annotations.Content[i].Value, SettingPrefix)
		if !ok || annotations.Content[i].Value == Annotation {
			continue
		}
		if err := a.annotation(flag, text(resolve(annotations.Content[i+1]))); err != nil {
			return a, fmt.Errorf("annotation %s%s: %w", SettingPrefix, flag, err)
		}
	}
	return a, checkResources(a.Resources)
}

// annotation applies the annotation queuegate.dev/FLAG, where FLAG is the value of flag.
func (a *applied) annotation(flag, value string) error {
	switch flag {
	case "image":
		a.Image = value
	case "container":
		a.Container = value
	case "user-port":
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 || n > 65535 {
			return fmt.Errorf("%q: want a port number from 1 to 65535", value)
		}
		a.UserPort = n
	case "live-settings":
		enabled, err := strconv.ParseBool(value)
		if err != nil {
			return fmt.Errorf("%q: want true or false", value)
		}
		a.LiveSettings = enabled
	case "resources":
		resources, err := ParseResources(value)
		if err != nil {
			return err
		}
		maps.Copy(a.Resources, resources)
	default:
		variable, value, err := ParseAssignment(flag + "=" + value)
		if err != nil {
			return err
		}
		a.Set[variable] = value
	}
	return nil
}

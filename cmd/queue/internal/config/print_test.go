package config

import (
	"bytes"
	"encoding/json"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func checkOutput(t testing.TB, cfg *Config) string {
	t.Helper()
	var out bytes.Buffer
	if err := WriteCheck(&out, cfg); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// readCheck reads the output of WriteCheck back into an environment.
func readCheck(t testing.TB, out string) map[string]string {
	t.Helper()
	variables := make(map[string]string)
	for line := range strings.Lines(out) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || line[0] == '#' {
			continue
		}
		name, rest, _ := strings.Cut(line, "=")
		end := strings.LastIndex(rest, "  (source: ")
		if end < 0 {
			t.Fatalf("got line %q", line)
		}
		text := rest[:end]
		if strings.HasPrefix(text, `"`) {
			unquoted, err := strconv.Unquote(text)
			if err != nil {
				t.Fatalf("got line %q: %v", line, err)
			}
			text = unquoted
		}
		variables[name] = text
	}
	return variables
}

func TestCheckPrintsEachSettingInTheOrderOfTheTableWithItsSource(t *testing.T) {
	cfg := mustLoad(t, []string{"--user-port=81"}, map[string]string{
		"CONTAINER_CONCURRENCY": "2", "OBSERVABILITY_CONFIG": `{"runtime":{"profiling":"enabled"}}`, "ROOT_CA": "a\nb", "SERVING_REVISION": " r "})
	out := checkOutput(t, cfg)
	at := 0
	for _, s := range cfg.settings {
		next := strings.Index(out[at:], "\n"+s.name+"=")
		if next < 0 {
			t.Fatalf("%s is missing or in the wrong place:\n%s", s.name, out)
		}
		at += next + 1
	}
	for _, line := range []string{
		"# Traffic",
		"USER_PORT=81  (source: flag)",
		"CONTAINER_CONCURRENCY=2  (source: environment)",
		"QUEUE_CAPACITY=20  (source: default)",
		"QUEUE_MAX_WAIT=0s  (source: default)",
		"DRAIN_QUIET_SECONDS=30  (source: default)",
		"ENABLE_PROFILING=true  (source: environment, OBSERVABILITY_CONFIG runtime.profiling)",
		"LISTEN_ADDRESS=  (source: default)",
		`ROOT_CA="a\nb"  (source: environment)`,
		`SERVING_REVISION=" r "  (source: environment)`,
		`OBSERVABILITY_CONFIG={"runtime":{"profiling":"enabled"}}  (source: environment)`,
	} {
		if !strings.Contains("\n"+out, "\n"+line+"\n") {
			t.Errorf("there is no line %q in:\n%s", line, out)
		}
	}
}

func TestTheOutputOfCheckLoadsToTheSameConfiguration(t *testing.T) {
	for name, variables := range map[string]map[string]string{"nothing": nil, "all different": allDifferent, "Knative": knativeEnvironment,
		"moved": {"OBSERVABILITY_CONFIG": `{"requestMetrics":{"endpoint":"127.0.0.1:9095"},"tracing":{"protocol":"stdout"}}`, "SERVING_LOGGING_CONFIG": `{"level":"error"}`,
			"USER_PORT": "8023", "REVISION_TIMEOUT_SECONDS": "99999999999999999999"}} {
		t.Run(name, func(t *testing.T) {
			cfg := mustLoad(t, nil, variables)
			again := mustLoad(t, nil, readCheck(t, checkOutput(t, cfg)))
			if !reflect.DeepEqual(withoutSecrets(again), withoutSecrets(cfg)) {
				t.Errorf("got  %+v\nwant %+v", again, cfg)
			}
		})
	}
}

func TestHelpFitsOnOneHundredColumnsAndNamesEverySetting(t *testing.T) {
	var out bytes.Buffer
	cfg, command, _, err := load([]string{"--help"}, nil)
	if err != nil || command != CommandHelp {
		t.Fatal(command, err)
	}
	if err := WriteHelp(&out, cfg); err != nil {
		t.Fatal(err)
	}
	help := out.String()
	for line := range strings.Lines(help) {
		line = strings.TrimSuffix(line, "\n")
		if len(line) > helpWidth || strings.TrimRight(line, " ") != line {
			t.Errorf("%d columns: %q", len(line), line)
		}
	}
	for i := range len(help) {
		if help[i] >= 0x80 {
			t.Fatalf("not ASCII: %q", help[max(0, i-20):i+1])
		}
	}
	for _, s := range cfg.settings {
		row := regexp.MustCompile(`(?m)^  --` + s.flag + `( .*)? ` + s.name + `(\n +| )\[(.+)\]$`).FindStringSubmatch(help)
		if standard, _ := s.standardShown(); row == nil || row[3] != standard {
			t.Errorf("--%s, %s [%s]: got %q", s.flag, s.name, standard, row)
		}
	}
	if !strings.Contains(strings.Join(strings.Fields(help), " "), "NAME is none, zipkin, grpc, http/protobuf, stdout or stackdriver.") {
		t.Error("the choices of TRACING_CONFIG_BACKEND are missing")
	}
}

func TestHelpAsJSONHasEveryCommandAndSetting(t *testing.T) {
	cfg, command, _, err := load([]string{"help", "--json"}, nil)
	if err != nil || command != CommandHelpJSON {
		t.Fatal(command, err)
	}
	var out bytes.Buffer
	if err := WriteHelpJSON(&out, cfg); err != nil {
		t.Fatal(err)
	}
	var help struct{ Commands []commandHelp }
	if err := json.Unmarshal(out.Bytes(), &help); err != nil {
		t.Fatal(err)
	}
	flags := map[string][]string{} // key: command and flag; value: variable, default and hint
	for _, c := range help.Commands {
		if c.About == "" || (c.Name == "") != (c.Summary == "") {
			t.Errorf("command %q is about %q, in short %q", c.Name, c.About, c.Summary)
		}
		for _, g := range c.Groups {
			for _, f := range g.Flags {
				if f.Help == "" {
					t.Errorf("no help for %s --%s", c.Name, f.Name)
				}
				flags[c.Name+" --"+f.Name] = []string{f.Variable, f.Default, f.Hint}
			}
		}
	}
	if len(help.Commands) != 1+len(commands) || help.Commands[0].Name != "" {
		t.Errorf("%d commands, the first is %q", len(help.Commands), help.Commands[0].Name)
	}
	for _, s := range cfg.settings {
		standard, _ := s.standardShown()
		if got, want := flags[" --"+s.flag], []string{s.name, standard, s.value.about().hint}; !slices.Equal(got, want) {
			t.Errorf("--%s: got %q, want %q", s.flag, got, want)
		}
	}
	for flag, want := range map[string][]string{
		" --check": {"", "", ""}, "probe --as": {"", "kubelet", "kubelet|activator|ingress"}, "probe --port": {"QUEUE_SERVING_PORT", "8012", "PORT"},
		"drain --drain-socket": {"DRAIN_SOCKET", "@queuegate", "SOCKET"}, "help --json": {"", "false", ""},
	} {
		if got := flags[flag]; !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", flag, got, want)
		}
	}
	if _, ok := flags["drain --port"]; ok {
		t.Error("drain has a flag without effect")
	}
}

func TestHelpOfACommandListsOnlyTheFlagsOfThisCommand(t *testing.T) {
	for _, c := range []struct {
		args        string
		wants, lack []string
	}{
		{"help drain", []string{"Usage: queue drain [flags]\n", "--drain-socket SOCKET", "DRAIN_SOCKET [@queuegate]"}, []string{"--port", "--as"}},
		{"drain --help", []string{"Usage: queue drain [flags]\n"}, []string{"--port"}},
		{"probe --port 1 -h", []string{"Usage: queue probe [flags]\n", "--as kubelet|activator|ingress", "[kubelet]", "--port PORT", "QUEUE_SERVING_PORT [8012]"}, []string{"--user-port"}},
		{"help version", []string{"Usage: queue version\n"}, []string{"--"}},
		{"help help", []string{"Usage: queue help [command]\n", "probe, drain, upgrade, version, help", "--json"}, []string{"--port"}},
		{"help", []string{"Usage:\n", "  probe [flags]", "--user-port", "queue [flags] -- COMMAND"}, nil},
	} {
		cfg, command, _, err := load(strings.Fields(c.args), nil)
		if err != nil || command != CommandHelp {
			t.Fatalf("%s: %v, %v", c.args, command, err)
		}
		var out bytes.Buffer
		if err := WriteHelp(&out, cfg); err != nil {
			t.Fatal(err)
		}
		for _, want := range c.wants {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s lacks %q:\n%s", c.args, want, &out)
			}
		}
		for _, lack := range c.lack {
			if strings.Contains(out.String(), lack) {
				t.Errorf("%s has %q:\n%s", c.args, lack, &out)
			}
		}
		for line := range strings.Lines(out.String()) {
			if len(line) > helpWidth+1 {
				t.Errorf("%s: %d columns: %q", c.args, len(line), line)
			}
		}
	}
}

func TestTheTableOfSettingsIsConsistent(t *testing.T) {
	names, flags, lastOfGroup := make(map[string]bool), make(map[string]bool), make(map[string]int)
	for i, s := range knownSettings() {
		for name := range strings.FieldsSeq(s.names) {
			if names[name] || !regexp.MustCompile(`^([A-Z][A-Z0-9_]+|[A-Za-z]*\.[A-Za-z]+)$`).MatchString(name) {
				t.Errorf("%s is repeated or malformed", name)
			}
			names[name] = true
		}
		if flags[s.flag] || !regexp.MustCompile(`^[a-z][a-z0-9-]+$`).MatchString(s.flag) {
			t.Errorf("--%s is repeated or malformed", s.flag)
		}
		flags[s.flag] = true
		if last, ok := lastOfGroup[s.group]; ok && last != i-1 {
			t.Errorf("group %s is split before %s", s.group, s.name)
		}
		lastOfGroup[s.group] = i
		if shown, _ := s.standardShown(); shown == "" || !strings.HasSuffix(s.help, ".") {
			t.Errorf("%s has default %q and help %q", s.name, shown, s.help)
		}
		standard := s.standardText()
		if standard == "" {
			continue
		}
		if err := s.value.set(standard); err != nil || s.value.text() != standard && s.value.text() != standard+"s" {
			t.Errorf("default %q of %s is read as %q, %v", standard, s.name, s.value.text(), err)
		}
	}
	for _, taken := range []string{"help", "version", "check"} {
		if flags[taken] {
			t.Errorf("--%s is a setting", taken)
		}
	}
}

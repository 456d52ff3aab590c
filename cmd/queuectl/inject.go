package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pmezard/go-difflib/difflib"
	"github.com/spf13/cobra"

	"github.com/queuegate/queuegate/cmd/queuectl/internal/manifest"
)

// rewriting has the common flags of inject and uninject.
type rewriting struct {
	paths     []string
	recursive bool
	diff      bool
	write     bool
	strict    bool
	// gates is true for inject. The command then fails if none of the objects has a gate
	// afterwards and at least one object was left unchanged.
	gates bool
}

func (r *rewriting) flags(c *cobra.Command) {
	f := c.Flags()
	f.StringSliceVarP(&r.paths, "filename", "f", nil, "file, directory, or - for stdin; may be given several times")
	f.BoolVarP(&r.recursive, "recursive", "R", false, "include subdirectories")
	f.BoolVar(&r.diff, "diff", false, "print the changes as a unified diff")
	f.BoolVarP(&r.write, "write", "w", false, "write the files instead of printing them")
	f.BoolVar(&r.strict, "strict", false, "exit code 1 if an object is left unchanged")
	c.MarkFlagsMutuallyExclusive("diff", "write")
}

func newInject() *cobra.Command {
	r := rewriting{gates: true}
	o := manifest.Options{Image: os.Getenv("QUEUEGATE_IMAGE"), Set: map[string]string{}, Resources: map[string]string{}}
	var set, resources []string
	c := &cobra.Command{
		Use:   "inject -f FILE|DIR|-",
		Short: "Add the gate to manifests",
		Long: `Prints manifests with the gate in them, as a native sidecar of each Pod, Deployment, StatefulSet,
ReplicaSet, DaemonSet, Job and CronJob, also of those in a List. Comments and order are kept.

The application's readiness probe moves into the gate, its liveness and startup probes go through the
gate, and the application outlives the drain. Services and NetworkPolicies of the same files lead to the
gate. Anything that cannot be rewritten is left unchanged and reported on stderr. A manifest that already
has the gate is updated to the flags; edits of its gate are kept.

Annotations of a workload take precedence over the flags: ` + manifest.SettingPrefix + `SETTING for a setting of the
gate, and ` + manifest.SettingPrefix + `image, container, user-port, resources and live-settings.

Exit code 1: requests would bypass the gate or not arrive (see --accept), a gate that was edited could not
be changed, or no workload could get the gate.`,
		Example: "  queuectl inject -f deploy/ --image registry.example/queuegate:1 | kubectl apply -f -\n" +
			"  queuectl inject -f web.yaml --diff --image registry.example/queuegate:1",
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			if o.Image == "" {
				return usageError{errors.New("--image: which image has the gate? (or QUEUEGATE_IMAGE)")}
			}
			for _, text := range set {
				variable, value, err := manifest.ParseAssignment(text)
				if err != nil {
					return usageError{fmt.Errorf("--set: %w", err)}
				}
				o.Set[variable] = value
			}
			for _, text := range resources {
				parsed, err := manifest.ParseResources(text)
				if err != nil {
					return usageError{fmt.Errorf("--resources: %w", err)}
				}
				maps.Copy(o.Resources, parsed)
			}
			if o.UserPort < 0 || o.UserPort > 65535 || o.Concurrency < 0 {
				return usageError{fmt.Errorf("--user-port %d, --concurrency %d: want a port from 1 to 65535 and a concurrency of 0 or more", o.UserPort, o.Concurrency)}
			}
			if err := o.Check(); err != nil {
				return usageError{err}
			}
			return r.run(c, func(files []manifest.File) ([]manifest.File, []manifest.Note) { return manifest.Inject(files, o) })
		},
	}
	r.flags(c)
	f := c.Flags()
	f.StringArrayVar(&set, "set", nil, "setting of the gate, NAME=VALUE; may be given several times (see queue help)")
	f.StringArrayVar(&resources, "resources", nil, "resources of the gate, such as requests.cpu=50m,limits.memory=256Mi; an empty quantity removes one")
	f.StringSliceVar(&o.Accept, "accept", nil, "accept that requests bypass the gate: "+strings.Join(manifest.Hazards, ", "))
	f.StringVar(&o.Image, "image", o.Image, "image of the gate (QUEUEGATE_IMAGE)")
	f.BoolVar(&o.Services, "services", true, "point Services and NetworkPolicies of the same files at the gate")
	f.StringVar(&o.Container, "container", "", "name of the container that serves (default the first with a port)")
	f.IntVar(&o.UserPort, "user-port", 0, "port that it serves on (default its port called http, or its first)")
	f.IntVar(&o.Concurrency, "concurrency", 0, "concurrency limit (default unlimited)")
	f.BoolVar(&o.LiveSettings, "live-settings", false, "mount the pod's annotations, with which \"queuectl set\" changes settings of a running gate")
	return c
}

func newUninject() *cobra.Command {
	var r rewriting
	c := &cobra.Command{
		Use:   "uninject -f FILE|DIR|-",
		Short: "Remove the gate from manifests",
		Long: `Prints manifests as they were before "queuectl inject", byte for byte, with later edits of all other parts.
An object whose gate cannot be removed is left unchanged, with exit code 1 and the first differing line
on stderr.`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error { return r.run(c, manifest.Uninject) },
	}
	r.flags(c)
	return c
}

func (r *rewriting) run(c *cobra.Command, rewrite func([]manifest.File) ([]manifest.File, []manifest.Note)) error {
	files, err := readFiles(r.paths, r.recursive, c.InOrStdin())
	if err != nil {
		return err
	}
	rewritten, notes := rewrite(files)
	if err := r.print(c.OutOrStdout(), files, rewritten); err != nil {
		return err
	}
	failed, unchanged := false, false
	for _, n := range notes {
		fmt.Fprintln(c.ErrOrStderr(), n)
		failed = failed || n.Failed || n.Unchanged && (r.strict || n.Object == "")
		unchanged = unchanged || n.Unchanged
	}
	hasGate := func(f manifest.File) bool { return strings.Contains(f.Text, manifest.Annotation) }
	noGate := r.gates && !slices.ContainsFunc(rewritten, hasGate)
	if failed || unchanged && noGate {
		return errSaid
	}
	if noGate { // not an error, because a file may have only a ConfigMap
		fmt.Fprintln(c.ErrOrStderr(), "queuectl: found no workload, so no gate was added")
	}
	return nil
}

func (r *rewriting) print(w io.Writer, before, after []manifest.File) error {
	for i, f := range after {
		switch {
		case r.diff:
			text, err := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{
				A: difflib.SplitLines(before[i].Text), B: difflib.SplitLines(f.Text), FromFile: f.Name, ToFile: f.Name, Context: 3})
			if err != nil {
				return err
			}
			if before[i].Text != f.Text {
				fmt.Fprint(w, text)
			}
		case r.write && f.Name != stdinName:
			if f.Text != before[i].Text {
				if err := writeFile(f); err != nil {
					return err
				}
			}
		default:
			if i > 0 {
				fmt.Fprint(w, separator(after[i-1].Text, f.Text))
			}
			if _, err := io.WriteString(w, f.Text); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeFile keeps the mode of the file.
func writeFile(f manifest.File) error {
	info, err := os.Stat(f.Name)
	if err != nil {
		return err
	}
	return os.WriteFile(f.Name, []byte(f.Text), info.Mode().Perm())
}

// separator returns the text between two concatenated files.
func separator(before, after string) string {
	s := ""
	if !strings.HasSuffix(before, "\n") {
		s = "\n"
	}
	if strings.HasPrefix(after, "---") || strings.HasPrefix(after, "%") {
		return s
	}
	return s + "---\n"
}

const stdinName = "stdin"

// readFiles reads files and directories; the path "-" means stdin.
func readFiles(paths []string, recursive bool, stdin io.Reader) (files []manifest.File, err error) {
	if len(paths) == 0 {
		return nil, usageError{errors.New("-f: which file, directory, or - for stdin?")}
	}
	for _, path := range paths {
		if path == "-" {
			text, err := io.ReadAll(stdin)
			if err != nil {
				return nil, err
			}
			files = append(files, manifest.File{Name: stdinName, Text: string(text)})
			continue
		}
		below, err := readPath(path, recursive)
		if err != nil {
			return nil, err
		}
		files = append(files, below...)
	}
	return files, nil
}

func readPath(root string, recursive bool) (files []manifest.File, err error) {
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && !recursive:
			return fs.SkipDir
		case d.IsDir() || path != root && !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path)):
			return nil
		}
		text, err := os.ReadFile(path)
		files = append(files, manifest.File{Name: path, Text: string(text)})
		return err
	})
	return files, err
}

package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/queuegate/queuegate/cmd/queuectl/internal/manifest"
)

func newSet() *cobra.Command {
	var r rewriting
	var k cluster
	var selector string
	run := false
	c := &cobra.Command{
		Use:   "set SETTING=VALUE... {pod/NAME | revision/NAME | -l SELECTOR | -f FILE|DIR|-}",
		Short: "Change settings of running gates, or of gates in manifests",
		Long: `Sets annotations ` + manifest.SettingPrefix + `SETTING, which gates read while they run if the annotations of their pods are
mounted ("queuectl inject --live-settings", or mount-podinfo of Knative). SETTING- takes one away. Settings are
flags of the gate, such as concurrency=10 and timeout=30; --list lists the ones that can change.

For pods it prints the call of kubectl that does it, or runs that with --apply. With -f it prints manifests with
the annotations in their pod templates, Services of Knative included. The gate checks the values: what it says of
them is in its log, in the metric queuegate_settings_error and on its status page.`,
		Example: "  queuectl set concurrency=10 queue-fair-by=header:X-Tenant pod/web-7d9f -n shop --apply\n" +
			"  queuectl set timeout=60 concurrency- -l app=web --apply\n" +
			"  queuectl set concurrency=10 -f service.yaml | kubectl apply -f -",
		RunE: func(c *cobra.Command, args []string) error {
			if list, _ := c.Flags().GetBool("list"); list {
				_, err := fmt.Fprintln(c.OutOrStdout(), strings.Join(manifest.LiveSettings, "\n"))
				return err
			}
			objects, settings, err := readSettings(args)
			switch {
			case err != nil:
				return usageError{err}
			case len(settings) == 0:
				return usageError{errors.New("want a setting such as concurrency=10; --list lists them")}
			case len(r.paths) > 0 && (len(objects) > 0 || selector != "" || run):
				return usageError{errors.New("want either manifests (-f), or pods of a cluster")}
			case len(r.paths) > 0:
				return r.run(c, func(files []manifest.File) ([]manifest.File, []manifest.Note) { return manifest.Set(files, settings) })
			case (len(objects) > 0) == (selector != ""):
				return usageError{errors.New("want pod/NAME, a selector (-l), or manifests (-f)")}
			}
			call := []string{"annotate", "--overwrite"}
			if selector != "" {
				call = append(call, "pods", "-l", selector)
			}
			call = append(call, objects...)
			for _, s := range settings {
				call = append(call, s.Argument())
			}
			if !run {
				_, err := fmt.Fprintln(c.OutOrStdout(), "kubectl", shellWords(append(slices.Clone(k.kubectl().Flags), call...)))
				return err
			}
			text, err := k.kubectl().Run(c.Context(), call...)
			fmt.Fprint(c.OutOrStdout(), text)
			return err
		},
	}
	r.flags(c)
	k.flags(c)
	f := c.Flags()
	f.StringVarP(&selector, "selector", "l", "", "selector of pods")
	f.BoolVar(&run, "apply", false, "call kubectl instead of printing the call")
	f.Bool("list", false, "print the settings that can change while the gate runs")
	return c
}

// readSettings separates arguments into objects (KIND/NAME) and settings.
func readSettings(args []string) (objects []string, settings []manifest.Setting, err error) {
	seen := map[string]bool{}
	for _, arg := range args {
		name, _, isSetting := strings.Cut(arg, "=")
		if !isSetting && strings.Contains(name, "/") && !strings.HasPrefix(name, manifest.SettingPrefix) {
			objects = append(objects, arg)
			continue
		}
		s, err := manifest.ParseSetting(arg)
		if err == nil && seen[s.Flag] {
			err = fmt.Errorf("%q: %s is repeated", arg, s.Flag)
		}
		if err != nil {
			return nil, nil, err
		}
		seen[s.Flag] = true
		settings = append(settings, s)
	}
	return objects, settings, nil
}

// shellWords joins words to a command line for a POSIX shell.
func shellWords(arguments []string) string {
	quoted := make([]string, len(arguments))
	for i, w := range arguments {
		if w == "" || strings.Trim(w, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./=:,@%+") != "" {
			w = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
		quoted[i] = w
	}
	return strings.Join(quoted, " ")
}

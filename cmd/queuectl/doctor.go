package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/queuegate/queuegate/cmd/queuectl/internal/doctor"
)

func newDoctor() *cobra.Command {
	var k cluster
	var paths, accept []string
	var recursive, strict bool
	c := &cobra.Command{
		Use:   "doctor -f FILE|DIR|- | KIND/NAME ...",
		Short: "Report problems with the gate in manifests or in a cluster",
		Long: `Checks manifests, or through kubectl objects of a cluster, and reports problems: readiness that does not
go through the gate, Services that bypass it, NetworkPolicies that block it, an application that speaks
TLS without UPSTREAM_TLS, a grace period shorter than the drain, missing hooks, a user without a number,
conflicting ports, names of Services that set variables of the gate. Exit code 1 if there is an error,
with --strict also if there is a warning.`,
		Example: "  queuectl doctor -f deploy/\n  queuectl doctor pod/web-7d9f -n shop\n  kustomize build . | queuectl doctor -f -",
		RunE: func(c *cobra.Command, args []string) error {
			if len(paths) == 0 && len(args) == 0 {
				return usageError{errors.New("want -f FILE, or KIND/NAME of a cluster")}
			}
			var objects doctor.Objects
			if len(paths) > 0 {
				files, err := readFiles(paths, recursive, c.InOrStdin())
				if err != nil {
					return err
				}
				for _, f := range files {
					if err := objects.Add(f.Text); err != nil {
						return fmt.Errorf("%s: %w", f.Name, err)
					}
				}
			}
			for _, name := range args {
				if kind, _, ok := strings.Cut(name, "/"); !ok || kind == "" {
					return usageError{fmt.Errorf("argument %q: want KIND/NAME, such as pod/web-7d9f", name)}
				}
			}
			if len(args) > 0 {
				// Some users may read pods, but not NetworkPolicies. For them, print the
				// error and do the other checks.
				if text, err := k.kubectl().Get(c.Context(), "networkpolicies"); err != nil {
					fmt.Fprintln(c.ErrOrStderr(), "queuectl: NetworkPolicies are not checked:", err)
				} else if err := objects.Add(string(text)); err != nil {
					return err
				}
				// Read the objects of args, and also all Services. A Service may bypass
				// the gate, or its service link may have the name of a setting.
				for _, get := range [][]string{args, {"services"}} {
					text, err := k.kubectl().Get(c.Context(), get...)
					if err != nil {
						return err
					}
					if err := objects.Add(string(text)); err != nil {
						return err
					}
				}
			}
			return diagnose(c, &objects, strict, accept)
		},
	}
	k.flags(c)
	f := c.Flags()
	f.StringSliceVarP(&paths, "filename", "f", nil, "file, directory, or - for stdin; may be given several times")
	f.BoolVarP(&recursive, "recursive", "R", false, "include subdirectories")
	f.StringSliceVar(&accept, "accept", nil, "report as a warning that requests bypass the gate: headless, host-port")
	f.BoolVar(&strict, "strict", false, "exit code 1 for warnings as well")
	return c
}

func diagnose(c *cobra.Command, objects *doctor.Objects, strict bool, accept []string) error {
	findings, pods := objects.Examine()
	if pods == 0 {
		return errors.New("found no object with pods (objects of Knative get the gate through Knative's configuration: docs/knative.md)")
	}
	bad := 0
	for _, f := range findings {
		f.Warning = f.Warning || slices.Contains(accept, f.Hazard)
		fmt.Fprintln(c.OutOrStdout(), f)
		if !f.Warning || strict {
			bad++
		}
	}
	if len(findings) == 0 {
		fmt.Fprintln(c.OutOrStdout(), "no problems found")
	}
	if bad > 0 {
		return errSaid
	}
	return nil
}

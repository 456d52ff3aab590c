package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/queuegate/queuegate/scripts/image/binary"
)

type settings struct {
	root, out string
	image     name.Tag
	push      *name.Tag // nil = do not push
	// roots is a file for the certificate authorities. If it is set, the program writes
	// this file and builds no image.
	roots   string
	release release
}

func main() {
	cfg, err := parse(os.Args[1:], os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(2)
	}
	if err := run(cfg, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func parse(args []string, help io.Writer) (settings, error) {
	var cfg settings
	fs := flag.NewFlagSet("image", flag.ContinueOnError)
	fs.SetOutput(help)
	fs.StringVar(&cfg.root, "root", "../..", "directory of the module")
	fs.StringVar(&cfg.out, "out", "bin/image", "directory of the archives")
	image := fs.String("image", "registry.example/queuegate:dev", "name in the gate's archive, with registry and tag; the demo's has -demo behind it")
	push := fs.String("push", "", "registry/name or registry/name:tag to push to; the tag is the version by default, with -fips behind it if -fips is given")
	fs.StringVar(&cfg.roots, "roots", "", "write the certificate authorities to this file and build nothing")
	fs.StringVar(&cfg.release.version, "version", "unknown", "version of the sources")
	fs.StringVar(&cfg.release.commit, "commit", "unknown", "commit of the sources")
	fs.StringVar(&cfg.release.revision, "revision", "", "full hash of the commit")
	fs.StringVar(&cfg.release.fips, "fips", "off", "version of Go's FIPS 140-3 module, or off")
	fs.StringVar(&cfg.release.builder, "builder", binary.DefaultBuilder, "URI of the builder, for the provenance")
	seconds := fs.Int64("time", 0, "time of the commit, in seconds since 1970")
	if err := fs.Parse(args); err != nil {
		return cfg, err
	}
	if fs.NArg() > 0 {
		return cfg, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	cfg.release.time = v1.Time{Time: time.Unix(*seconds, 0).UTC()}
	var err error
	if cfg.image, err = name.NewTag(*image, name.StrictValidation); err != nil {
		return cfg, fmt.Errorf("-image %q: %w", *image, err)
	}
	if err := binary.CheckBuilder(cfg.release.builder); err != nil {
		return cfg, err
	}
	if *push == "" {
		return cfg, nil
	}
	version := strings.ReplaceAll(cfg.release.version, "+", "-")
	if cfg.release.fips != "off" {
		version += "-fips"
	}
	tag, err := name.NewTag(*push, name.WithDefaultTag(version))
	if err != nil {
		return cfg, fmt.Errorf("-push %q: %w", *push, err)
	}
	cfg.push = &tag
	return cfg, nil
}

func run(cfg settings, out io.Writer) error {
	if cfg.roots != "" {
		return os.WriteFile(cfg.roots, roots(), 0o644)
	}
	for _, p := range programs {
		made, err := assemble(cfg.root, p, cfg.release)
		if err != nil {
			return err
		}
		tag, err := withSuffix(cfg.image, p.suffix)
		if err != nil {
			return err
		}
		archive, err := made.write(cfg.out, tag)
		if err != nil {
			return fmt.Errorf("writing the archive of %s: %w", p.name, err)
		}
		digest, err := made.index.Digest()
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s: %s@%s\n", archive, tag, digest)
		if cfg.push == nil {
			continue
		}
		target, err := withSuffix(*cfg.push, p.suffix)
		if err != nil {
			return err
		}
		if err := made.push(target); err != nil {
			return err
		}
		fmt.Fprintf(out, "pushed: %s@%s\n", target, digest)
	}
	return nil
}

// withSuffix appends suffix to the name of the repository and keeps the tag.
func withSuffix(tag name.Tag, suffix string) (name.Tag, error) {
	return name.NewTag(tag.Repository.Name() + suffix + ":" + tag.TagStr())
}

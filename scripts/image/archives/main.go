// Archives writes the files of a release that are not images: an archive per platform
// with the gate, queuectl, their man pages and completions, a bill of materials per
// program, SLSA provenance and SHA256SUMS. The same sources and Go version give the
// same bytes.
package main

import (
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/queuegate/queuegate/scripts/image/binary"
)

var architectures = []string{"amd64", "arm64"}

type settings struct {
	root, out       string
	version, commit string
	revision, fips  string // fields of binary.Source
	builder         string
	time            time.Time // time of the commit, and of all files in the archives
}

func main() {
	var cfg settings
	flag.StringVar(&cfg.root, "root", "../..", "directory of the module")
	flag.StringVar(&cfg.out, "out", "bin/release", "directory of the archives")
	flag.StringVar(&cfg.version, "version", "unknown", "version of the sources")
	flag.StringVar(&cfg.commit, "commit", "unknown", "commit of the sources")
	flag.StringVar(&cfg.revision, "revision", "", "full hash of the commit")
	flag.StringVar(&cfg.fips, "fips", "off", "version of Go's FIPS 140-3 module, or off")
	flag.StringVar(&cfg.builder, "builder", binary.DefaultBuilder, "URI of the builder, for the provenance")
	seconds := flag.Int64("time", 0, "time of the commit, in seconds since 1970")
	flag.Parse()
	cfg.time = time.Unix(*seconds, 0).UTC()
	if err := run(cfg, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// run builds a release. It empties the directory cfg.out, writes the files of the release
// to it, and prints their paths to log.
func run(cfg settings, log io.Writer) error {
	if err := errors.Join(described(cfg), binary.CheckBuilder(cfg.builder)); err != nil {
		return err
	}
	if !slices.Contains(architectures, runtime.GOARCH) || runtime.GOOS != "linux" {
		return fmt.Errorf("man pages and completions come from the programs, which do not run on %s/%s", runtime.GOOS, runtime.GOARCH)
	}
	if err := errors.Join(os.RemoveAll(cfg.out), os.MkdirAll(cfg.out, 0o755)); err != nil {
		return err
	}
	files := map[string][]byte{}
	built := map[string][]byte{} // programs by NAME/ARCHITECTURE
	release := "queuegate_" + strings.TrimPrefix(cfg.version, "v")
	if cfg.fips != "off" {
		release = "queuegate-fips_" + strings.TrimPrefix(cfg.version, "v")
	}
	base := release + "_linux_"
	for _, architecture := range architectures {
		for _, s := range cfg.sources() {
			program, err := binary.Build(s, architecture)
			if err != nil {
				return err
			}
			bill, err := binary.Bill(s, program)
			if err != nil {
				return err
			}
			name := filepath.Base(filepath.Join(s.Module, s.Package))
			built[name+"/"+architecture] = program
			files[base+architecture+"."+name+".cdx.json"] = bill
		}
	}
	share, err := generate(cfg, built["queue/"+runtime.GOARCH], built["queuectl/"+runtime.GOARCH])
	if err != nil {
		return err
	}
	for _, architecture := range architectures {
		archive, err := pack(base+architecture, cfg.time, built["queue/"+architecture], built["queuectl/"+architecture], share)
		if err != nil {
			return err
		}
		files[base+architecture+".tar.gz"] = archive
	}
	var programs [][]byte
	for _, name := range sorted(built) {
		programs = append(programs, built[name])
	}
	var subjects []binary.Subject
	for _, name := range sorted(files) {
		subjects = append(subjects, binary.Subject{Name: name, SHA256: fmt.Sprintf("%x", sha256.Sum256(files[name]))})
	}
	run := binary.Run{Target: "release", Builder: cfg.builder, Source: cfg.sources()[0]}
	if files[release+".provenance.json"], err = binary.Provenance(run, programs, subjects); err != nil {
		return err
	}
	return write(cfg.out, files, log)
}

// sources returns the sources of the programs of a release, one Source per program. The
// name of a program is the last element of the joined path Module/Package.
func (cfg *settings) sources() []binary.Source {
	s := binary.Source{Version: cfg.version, Commit: cfg.commit, Revision: cfg.revision, FIPS: cfg.fips, Time: cfg.time, Stamped: true}
	gate, ctl := s, s
	gate.Module, gate.Package = cfg.root, "./cmd/queue"
	ctl.Module, ctl.Package = filepath.Join(cfg.root, "cmd/queuectl"), "."
	return []binary.Source{gate, ctl}
}

// grpcgateModule is the go.mod of grpcgate, which is a separate module. In the sources of
// a release it must require the main module with the version of this release.
const grpcgateModule = "pkg/embed/grpcgate/go.mod"

// described checks that two files mention the version of the release: the CHANGELOG must
// have a section for it, and grpcgate must require the main module with it. A version
// that does not have the form v1.2.3 is not a release and is not checked.
func described(cfg settings) error {
	if !regexp.MustCompile(`^v\d+\.\d+\.\d+$`).MatchString(cfg.version) {
		return nil
	}
	text, err := os.ReadFile(filepath.Join(cfg.root, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	title := "\n## [" + cfg.version[1:] + "] - "
	if !strings.Contains(string(text), title) {
		return fmt.Errorf("CHANGELOG.md does not describe %s: want a section that begins with %q", cfg.version, strings.TrimSpace(title))
	}
	if text, err = os.ReadFile(filepath.Join(cfg.root, grpcgateModule)); err != nil {
		return err
	}
	if want := "github.com/queuegate/queuegate " + cfg.version; !strings.Contains(string(text), want+"\n") {
		return fmt.Errorf("%s does not require %s: want %q", grpcgateModule, cfg.version, want)
	}
	return nil
}

// write writes files and their checksums (sha256sum) to a directory.
func write(dir string, files map[string][]byte, log io.Writer) error {
	var sums strings.Builder
	for _, name := range sorted(files) {
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(files[name]), name)
	}
	files["SHA256SUMS"] = []byte(sums.String())
	for _, name := range sorted(files) {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, files[name], 0o644); err != nil {
			return err
		}
		fmt.Fprintln(log, path)
	}
	return nil
}

package micro

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/perf/benchfmt"
)

// A Recording is what a file in the benchmark format holds, in its order.
type Recording []*benchfmt.Result

// config returns the last value of a key.
func (rec Recording) config(key string) string {
	if len(rec) == 0 {
		return ""
	}
	return rec[len(rec)-1].GetConfig(key)
}

// Parse reads the benchmark format; lines of other kinds ("PASS") are passed
// over. A line that begins like a result but is none is an error.
func Parse(r io.Reader, name string) (Recording, error) {
	var rec Recording
	reader := benchfmt.NewReader(r, name)
	for reader.Scan() {
		switch line := reader.Result().(type) {
		case *benchfmt.Result:
			rec = append(rec, line.Clone())
		case *benchfmt.SyntaxError:
			return nil, fmt.Errorf("reading benchmarks: %w", line)
		}
	}
	if err := reader.Err(); err != nil {
		return nil, fmt.Errorf("reading benchmarks: %w", err)
	}
	return rec, nil
}

// write writes a recording.
func (rec Recording) write(w io.Writer) error {
	writer := benchfmt.NewWriter(w)
	for _, r := range rec {
		if err := writer.Write(r); err != nil {
			return fmt.Errorf("writing benchmarks: %w", err)
		}
	}
	return nil
}

func read(name string) (Recording, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("reading the recording: %w", err)
	}
	defer f.Close()
	return Parse(f, name)
}

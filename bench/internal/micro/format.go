package micro

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Recording is what a file in the benchmark format holds. Lines of other kinds
// ("PASS") are passed over.
type Recording struct {
	// Config holds the last value of each key.
	Config map[string]string
	// Results are in the order of the file.
	Results []Result
}

// Result is one line: one benchmark, run once.
type Result struct {
	Package    string
	Name       string // without "Benchmark", with the processors ("-2")
	Iterations int
	Values     []Value
}

// Value is one measurement of a Result.
type Value struct {
	Value float64
	Unit  string
}

// Parse reads the benchmark format. A line that begins like a result but is
// none is an error with its number, counted from 1.
func Parse(r io.Reader) (*Recording, error) {
	rec := &Recording{Config: map[string]string{}}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		if key, value, ok := configLine(line); ok {
			rec.Config[key] = value
			continue
		}
		if !isResult(line) {
			continue
		}
		result, err := parseResult(line)
		if err != nil {
			return nil, fmt.Errorf("reading benchmarks: line %d: %w", n, err)
		}
		result.Package = rec.Config["pkg"]
		rec.Results = append(rec.Results, result)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("reading benchmarks: %w", err)
	}
	return rec, nil
}

// configLine splits "key: value". A key begins with a lower-case letter and has
// neither spaces nor upper-case letters.
func configLine(line string) (key, value string, ok bool) {
	key, value, ok = strings.Cut(line, ":")
	if !ok || key == "" {
		return "", "", false
	}
	if first, _ := utf8.DecodeRuneInString(key); !unicode.IsLower(first) {
		return "", "", false
	}
	if strings.ContainsFunc(key, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsUpper(r) }) {
		return "", "", false
	}
	if value != "" && value[0] != ' ' && value[0] != '\t' {
		return "", "", false
	}
	return key, strings.TrimSpace(value), true
}

// isResult says whether a line begins with "Benchmark" and no lower-case letter
// after it, and has more than its name: a benchmark that logs prints its name
// alone first.
func isResult(line string) bool {
	rest, ok := strings.CutPrefix(line, "Benchmark")
	if !ok {
		return false
	}
	if r, _ := utf8.DecodeRuneInString(rest); unicode.IsLower(r) {
		return false
	}
	return len(strings.Fields(line)) > 1
}

func parseResult(line string) (Result, error) {
	fields := strings.Fields(line)
	r := Result{Name: strings.TrimPrefix(fields[0], "Benchmark")}
	if len(fields) < 4 || len(fields)%2 != 0 {
		return r, fmt.Errorf("%q is not a name, a count and pairs of value and unit", line)
	}
	var err error
	if r.Iterations, err = strconv.Atoi(fields[1]); err != nil || r.Iterations <= 0 {
		return r, errors.New("the count of " + r.Name + " is " + strconv.Quote(fields[1]) + ", must be a positive number")
	}
	for i := 2; i < len(fields); i += 2 {
		v, err := strconv.ParseFloat(fields[i], 64)
		if err != nil {
			return r, fmt.Errorf("a value of %s: %w", r.Name, err)
		}
		r.Values = append(r.Values, Value{v, fields[i+1]})
	}
	return r, nil
}

package sample

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
)

// WriteCSV writes all figures, percentiles included, as comma-separated values (RFC
// 4180). The first line has the titles.
func (run *Run) WriteCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	out.UseCRLF = true
	lines := [][]string{{"round", "scenario", "target", "figure", "value", "unit", "better"}}
	for _, f := range run.Figures {
		lines = append(lines, []string{strconv.Itoa(f.Round), f.Scenario, f.Target, f.Figure, strconv.FormatFloat(f.Value, 'g', -1, 64), f.Unit, string(f.Better)})
	}
	if err := out.WriteAll(lines); err != nil {
		return fmt.Errorf("writing figures: %w", err)
	}
	return nil
}

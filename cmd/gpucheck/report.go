package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
)

// A status says what a row means: see the package comment.
type status string

const (
	ok   status = "ok"
	fail status = "FAIL"
	miss status = "MISS"
	info status = "info"
	skip status = "skip"
)

// A row is one check.
type row struct {
	Section string  `json:"section"`
	Name    string  `json:"name"`
	Status  status  `json:"status"`
	Value   float64 `json:"value"` // 0 if there is none
	Unit    string  `json:"unit,omitempty"`
	Bound   float64 `json:"bound,omitempty"` // what Value must not be above, or, of a speed, below
	Detail  string  `json:"detail,omitempty"`
}

// String is the row as it is printed.
func (r row) String() string {
	value := ""
	if r.Unit != "" {
		value = number(r.Value) + " " + r.Unit
	}
	if r.Bound != 0 {
		value += " (" + number(r.Bound) + ")"
	}
	return fmt.Sprintf("%-4s  %-10s  %-44s  %-28s  %s", r.Status, r.Section, r.Name, value, firstLine(r.Detail))
}

// number writes a value with four digits that count.
func number(v float64) string {
	if v >= 1e4 && v < 1e15 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

// firstLine is text up to the first line's end, and not too much of it: the report has all.
func firstLine(s string) string {
	for i, c := range s {
		if c == '\n' || i >= 160 {
			return s[:i] + " ..."
		}
	}
	return s
}

// A log is what a child process wrote that did not end well.
type childLog struct {
	Section string `json:"section"`
	Ended   string `json:"ended"`
	Text    string `json:"text"`
}

// A report is all rows of a run.
type report struct {
	Command []string           `json:"command"`
	Machine string             `json:"machine"`
	Summary string             `json:"summary"`
	Seconds map[string]float64 `json:"seconds"` // of each section
	Rows    []row              `json:"rows"`
	Logs    []childLog         `json:"logs,omitempty"`

	out  io.Writer
	path string
}

// add prints a row and keeps it.
func (r *report) add(w row) {
	r.Rows = append(r.Rows, w)
	fmt.Fprintln(r.out, w)
}

// count is how many rows have a status.
func (r *report) count(s status) int {
	n := 0
	for _, w := range r.Rows {
		if w.Status == s {
			n++
		}
	}
	return n
}

// write writes the report in one step.
func (r *report) write() error {
	if r.path == "" {
		return nil
	}
	r.Summary = fmt.Sprintf("%d ok, %d FAIL, %d MISS, %d info, %d skip", r.count(ok), r.count(fail), r.count(miss), r.count(info), r.count(skip))
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return fmt.Errorf("gpucheck: report: %w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(r.path), ".gpucheck-*")
	if err == nil {
		_, err = f.Write(append(text, '\n'))
		if e := f.Close(); err == nil {
			err = e
		}
		if err == nil {
			err = os.Rename(f.Name(), r.path)
		}
		if err != nil {
			os.Remove(f.Name())
		}
	}
	if err != nil {
		return fmt.Errorf("gpucheck: report: %w", err)
	}
	return nil
}

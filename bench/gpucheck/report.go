package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/paragon-train/paragon/internal/compute/cuda/gputest"
)

// A row is one check.
type row = gputest.Row

// What rows mean: see the package comment.
const (
	ok   = gputest.OK
	fail = gputest.Fail
	miss = gputest.Miss
	info = gputest.Info
	skip = gputest.Skip
)

// A log is what a child process wrote that did not end well.
type childLog struct {
	Section string `json:"section"`
	Ended   string `json:"ended"`
	Text    string `json:"text"`
}

// A report is all rows of a run.
type report struct {
	Command []string  `json:"command"`
	Built   string    `json:"built"`
	Machine string    `json:"machine"`
	Begun   time.Time `json:"begun"`

	// Whole is false in what was written before the last section.
	Whole bool `json:"whole"`

	Summary string `json:"summary"`

	// Seconds are those of each section.
	Seconds map[string]float64 `json:"seconds"`

	Rows []row      `json:"rows"`
	Logs []childLog `json:"logs,omitempty"`

	out  io.Writer
	path string

	// width is the width of the terminal in columns. 0: there is no terminal.
	width int

	small bool
}

// add prints a row and keeps it.
func (r *report) add(w row) {
	r.Rows = append(r.Rows, w)
	r.print(w)
}

// count is how many rows have a status.
func (r *report) count(s gputest.Status) int {
	n := 0
	for _, w := range r.Rows {
		if w.Status == s {
			n++
		}
	}
	return n
}

func (r *report) summary() string {
	return fmt.Sprintf("%d ok, %d FAIL, %d MISS, %d info, %d skip", r.count(ok), r.count(fail), r.count(miss), r.count(info), r.count(skip))
}

// write writes the report in one step. One that is not whole has the bars as far as they are known.
func (r *report) write() error {
	if r.path == "" {
		return nil
	}
	r.Summary = r.summary()
	written := *r
	if !r.Whole {
		written.Rows = append(slices.Clone(r.Rows), bars(r.Rows, r.small)...)
	}
	text, err := json.MarshalIndent(written, "", " ")
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

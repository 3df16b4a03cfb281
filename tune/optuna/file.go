package optuna

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/paragon-train/paragon/tune"
)

// Version is that of the file's form.
const Version = 1

// A File is a study of Optuna's.
type File struct {
	Version int    `json:"version"`
	Name    string `json:"study_name"`
	// Directions has "minimize" or "maximize" for each objective.
	Directions []string `json:"directions"`
	// MetricNames are the objectives'; nil: they have none.
	MetricNames []string `json:"metric_names"`
	Trials      []Trial  `json:"trials"`
}

// A Trial is one of Optuna's.
type Trial struct {
	Number        int                     `json:"number"`
	State         string                  `json:"state"`
	Values        []Number                `json:"values"`
	Params        tune.Params             `json:"params"`
	Distributions map[string]Distribution `json:"distributions"`
	// Intermediate are the values of the first objective that the trial reported, by step.
	Intermediate map[int]Number `json:"intermediate_values"`
	UserAttrs    map[string]any `json:"user_attrs"`
	SystemAttrs  map[string]any `json:"system_attrs"`
}

// A Distribution is the domain of a parameter.
type Distribution struct {
	Name       string         `json:"name"`
	Attributes map[string]any `json:"attributes"`
}

// A Number is a float64 that JSON may not have.
type Number float64

// MarshalJSON writes "NaN", "Infinity" and "-Infinity" as texts.
func (n Number) MarshalJSON() ([]byte, error) {
	x := float64(n)
	switch {
	case math.IsNaN(x):
		return []byte(`"NaN"`), nil
	case math.IsInf(x, 0):
		return fmt.Appendf(nil, "%q", map[bool]string{true: "Infinity", false: "-Infinity"}[x > 0]), nil
	}
	return strconv.AppendFloat(nil, x, 'g', -1, 64), nil
}

// UnmarshalJSON reads a number, or a text of one.
func (n *Number) UnmarshalJSON(b []byte) error {
	text := string(b)
	if len(b) > 0 && b[0] == '"' {
		if err := json.Unmarshal(b, &text); err != nil {
			return err
		}
	}
	x, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return fmt.Errorf("got %.40s, want a number, or a text such as \"NaN\"", b)
	}
	*n = Number(x)
	return nil
}

// The states of Optuna's trials.
const (
	complete = "COMPLETE"
	pruned   = "PRUNED"
	failed   = "FAIL"
	running  = "RUNNING"
	waiting  = "WAITING"
)

// maxFile bounds a file.
const maxFile = 1 << 30

// Read reads a file and checks its form.
func Read(r io.Reader) (*File, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("optuna: %w", err)
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("optuna: the file has more than %d bytes", maxFile)
	}
	f := &File{}
	d := json.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(f); err != nil {
		return nil, fmt.Errorf("optuna: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("optuna: there is text after the object")
	}
	if err := f.validate(); err != nil {
		return nil, fmt.Errorf("optuna: %w", err)
	}
	return f, nil
}

// validate says what is wrong with a file that is JSON of the right form.
func (f *File) validate() error {
	if f.Version != Version {
		return fmt.Errorf("version is %d, want %d", f.Version, Version)
	}
	if len(f.Directions) == 0 {
		return errors.New("directions are missing")
	}
	for i, d := range f.Directions {
		if d != "minimize" && d != "maximize" {
			return fmt.Errorf("directions[%d] is %q, want minimize or maximize", i, d)
		}
	}
	if n := len(f.MetricNames); n > 0 && n != len(f.Directions) {
		return fmt.Errorf("there are %d metric_names for %d directions", n, len(f.Directions))
	}
	for i, t := range f.Trials {
		switch t.State {
		case complete:
			if len(t.Values) != len(f.Directions) {
				return fmt.Errorf("trials[%d]: %d values of a complete trial for %d directions", i, len(t.Values), len(f.Directions))
			}
		case pruned, failed, running, waiting:
		default:
			return fmt.Errorf("trials[%d]: state is %q, want %s, %s, %s, %s or %s", i, t.State, complete, pruned, failed, running, waiting)
		}
		for step := range t.Intermediate {
			if step < 0 {
				return fmt.Errorf("trials[%d]: intermediate_values has step %d, want 0 or more", i, step)
			}
		}
	}
	return nil
}

// Write writes the file.
func (f *File) Write(w io.Writer) error {
	text, err := json.MarshalIndent(f, "", " ")
	if err != nil {
		return fmt.Errorf("optuna: %w", err)
	}
	if _, err := w.Write(append(text, '\n')); err != nil {
		return fmt.Errorf("optuna: %w", err)
	}
	return nil
}

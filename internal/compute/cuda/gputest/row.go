package gputest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// A Status says what a row means.
type Status string

const (
	OK   Status = "ok"
	Fail Status = "FAIL"
	Miss Status = "MISS" // right, and below its aim
	Info Status = "info" // a measurement, or an answer
	Skip Status = "skip" // not checked
)

// A Row is one check or measurement.
type Row struct {
	Section string  `json:"section"`
	Name    string  `json:"name"`
	Status  Status  `json:"status"`
	Value   float64 `json:"value"` // 0 if there is none
	Unit    string  `json:"unit,omitempty"`

	// Bound is what Value must not be above or, for a speed, below.
	Bound float64 `json:"bound,omitempty"`

	Detail string `json:"detail,omitempty"`
}

// What ends the names of rows of gradients, and begins what is said of those that the reference
// judges. Gpucheck looks for them.
const (
	Gradient         = ": gradient"
	RoundedGradient  = Gradient + ", rounding at the same places"
	Reference        = "the reference"
	AgainstReference = "against " + Reference
)

// Key is the name of the attribute of a test that is a row.
const Key = "row"

// Text is the row on one line.
func (r Row) Text() string {
	text, err := json.Marshal(r)
	if err != nil { // a number that is none
		r.Value, r.Bound, r.Status = 0, 0, Fail
		r.Detail = strings.TrimSpace(r.Detail + " (" + err.Error() + ")")
		if text, err = json.Marshal(r); err != nil {
			panic(err) // only text is left
		}
	}
	return string(text)
}

// Report writes a row into the test's output. One that is FAIL fails the test.
func Report(t testing.TB, r Row) {
	t.Helper()
	t.Attr(Key, r.Text())
	if current != nil {
		current.said = true
	}
	if r.Status == Fail {
		t.Fail()
	}
}

// Measured reports a number that nothing is asked of. Without a unit it is only said.
func Measured(t testing.TB, name string, value float64, unit, format string, args ...any) {
	t.Helper()
	Report(t, Row{Name: name, Status: Info, Value: value, Unit: unit, Detail: fmt.Sprintf(format, args...)})
}

// Worse says whether value takes the place of the worst so far. What is no number is worst of all,
// and stays.
func Worse(value, worst float64) bool { return worst == worst && !(value <= worst) }

// Within fails the test if value is above bound, or no number. In a Check the worst value of each
// name is reported as one row, whose name begins with that of the check.
func Within(t testing.TB, name string, value, bound float64, unit, detail string) {
	t.Helper()
	if current == nil {
		if !(value <= bound) {
			t.Errorf("%s is %.3g %s, want at most %g; %s", strings.TrimLeft(name, " ,:"), value, unit, bound, detail)
		}
		return
	}
	r := Row{Name: name, Status: OK, Value: value, Unit: unit, Bound: bound, Detail: detail}
	if !(value <= bound) {
		r.Status = Fail
		t.Fail()
	}
	for i, old := range current.rows {
		if old.Name == name {
			if Worse(value/bound, old.Value/old.Bound) {
				current.rows[i] = r
			}
			return
		}
	}
	current.rows = append(current.rows, r)
}

// Answer reports the answer to a question that has no wrong one.
func Answer(t testing.TB, name string, yes bool, holds, otherwise, detail string) {
	t.Helper()
	if yes {
		Measured(t, name, 0, "", "yes: %s (%s)", holds, detail)
	} else {
		Measured(t, name, 0, "", "NO: %s; so %s (%s)", holds, otherwise, detail)
	}
}

package tune

import (
	"fmt"
	"math"

	"github.com/paragon-train/paragon/tune/internal/jsonline"
)

// A Fidelity is a parameter that says how faithfully a trial is tried: the share of the data, the
// width of the model, the size of the images. It is not searched. A trial begins at Low (Hyperband
// has some begin higher) and is run again, from its start and with the same other parameters, at
// higher levels: Low·Eta, Low·Eta², up to High. Whether it is, the study's Scheduler decides, for
// which a level is a step: see Step.
//
// Each run of a trial has the level as one more parameter of its Params, and counts as one report:
// its last one with the study's metric, at the level's step. Only results at High count for the
// best trial. Nothing is carried from one level to the next: Reporter.Checkpoint writes nothing.
type Fidelity struct {
	// Parameter is its name, which the Space must not have.
	Parameter string
	// Low is the level at which a trial begins, above 0, and High the one whose results count.
	Low, High float64
	// Eta is the factor from level to level, at least 1.5; zero is 3. The level before High is
	// left out where it is nearer to High than the root of Eta.
	Eta float64
}

// Validate says what is wrong with the fields.
func (f Fidelity) Validate() error {
	for _, x := range []float64{f.Low, f.High, f.Eta} {
		if !isFinite(x) {
			return fmt.Errorf("got low %v, high %v and eta %v, want finite numbers", f.Low, f.High, f.Eta)
		}
	}
	switch {
	case f.Parameter == "":
		return fmt.Errorf("it has no parameter: want the name of what trials are given, such as width")
	case f.Low <= 0:
		return fmt.Errorf("low is %v, want more than 0", f.Low)
	case f.High < f.Low:
		return fmt.Errorf("high is %v and low %v, want high to be the larger one", f.High, f.Low)
	case f.Eta != 0 && f.Eta < 1.5:
		return fmt.Errorf("eta is %v, want at least 1.5, or 0 for 3", f.Eta)
	case f.whole() && f.High > math.MaxInt32:
		return fmt.Errorf("high is %v, want at most %d", f.High, math.MaxInt32)
	case !f.whole() && f.High > 1000*f.Low:
		return fmt.Errorf("high is %v and low %v, want it at most 1000 times as large unless both are whole numbers", f.High, f.Low)
	}
	return validName(f.Parameter)
}

// whole says whether levels are whole numbers.
func (f Fidelity) whole() bool { return f.Low == math.Trunc(f.Low) && f.High == math.Trunc(f.High) }

// Levels are the values of the parameter, from Low to High. They are whole numbers if both are.
func (f Fidelity) Levels() []float64 {
	eta := f.Eta
	if eta == 0 {
		eta = 3
	}
	var levels []float64
	last := f.High / math.Sqrt(eta)
	for v := f.Low; v <= last; v *= eta {
		level := v
		if f.whole() {
			level = math.Round(v)
		}
		if n := len(levels); n == 0 || f.Step(level) > f.Step(levels[n-1]) {
			levels = append(levels, level)
		}
	}
	if len(levels) == 0 && f.Low < f.High {
		levels = append(levels, f.Low)
	}
	return append(levels, f.High)
}

// Step is the step that stands for a level, in reports and in what a Scheduler counts: the level
// itself if Low and High are whole numbers, otherwise the thousandths that it is of High. A
// Scheduler finds the levels by View.Fidelity: ASHA and Hyperband have them as their rungs and
// rounds, whatever their MinStep, and need Step(High) as their MaxStep.
func (f Fidelity) Step(level float64) int {
	if f.whole() {
		return int(math.Round(level))
	}
	return int(math.Round(1000 * level / f.High))
}

// Steps are those of the levels.
func (f Fidelity) Steps() []int {
	var steps []int
	for _, level := range f.Levels() {
		steps = append(steps, f.Step(level))
	}
	return steps
}

// StepName is what a step is called where curves are drawn: the parameter, and "step" without a
// Fidelity.
func (f *Fidelity) StepName() string {
	switch {
	case f == nil:
		return "step"
	case f.whole():
		return f.Parameter
	default:
		return fmt.Sprintf("%s (thousandths of %v)", f.Parameter, f.High)
	}
}

// line is the fidelity in the header of a log.
func (f Fidelity) line() string {
	return fmt.Sprintf("fidelity %q [%v, %v] eta %v", f.Parameter, f.Low, f.High, f.Eta)
}

// scanFidelity reads what line wrote, but for its first word.
func scanFidelity(d *jsonline.Scanner) *Fidelity {
	f := &Fidelity{Parameter: scanQuoted(d)}
	d.Want(" [")
	f.Low = scanFloat(d)
	d.Want(", ")
	f.High = scanFloat(d)
	d.Want("] eta ")
	f.Eta = scanFloat(d)
	return f
}

// from is the level at which a trial begins that is to begin at a step.
func (f Fidelity) from(step int) float64 {
	for _, level := range f.Levels() {
		if f.Step(level) >= step {
			return level
		}
	}
	return f.High
}

// level is the level at which a trial runs next: the first one above its newest report, and before
// its first report the one at which it began. ok is false if it has reported at the highest.
func (f Fidelity) level(t *Trial) (level float64, ok bool) {
	last, reported := t.LastStep()
	if !reported {
		switch v, _ := t.Params.Get(f.Parameter); v := v.(type) {
		case int64:
			return float64(v), true
		case float64:
			return v, true
		}
	}
	if last >= f.Step(f.High) {
		return f.High, false
	}
	return f.from(last + 1), true
}

// at are the parameters with those of a level.
func (f Fidelity) at(p Params, level float64) Params {
	if f.whole() {
		return p.with(f.Parameter, int64(level))
	}
	return p.with(f.Parameter, level)
}

// climbs says whether a trial whose run has ended is to run at the next level. Without a fidelity
// (f is nil) there is none.
func (f *Fidelity) climbs(t *Trial) bool {
	if f == nil {
		return false
	}
	_, more := f.level(t)
	return more
}

// levelled fits what was decided about a trial to its level: at the highest one it has trained to
// its end, whatever its value; below that it may be stopped, but is not complete. Without a
// fidelity (f is nil) the decision stays.
func (f *Fidelity) levelled(t *Trial, d Decision) Decision {
	last, ok := t.LastStep()
	if f == nil || !ok {
		return d
	}
	switch {
	case last < f.Step(f.High):
		if d.Action == Complete {
			d.Action = Stop
		}
	case d.Action != Complete:
		d.Action = Complete
		if d.Rule == "" {
			d.Rule = "highest fidelity"
		}
	}
	return d
}

package tune

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/paragon-train/paragon/internal/files/vfs"
	"github.com/paragon-train/paragon/metrics"
	"github.com/paragon-train/paragon/tune/internal/studydir"
)

// Load reads the result so far from a study's log, at path or in the folder path. The study may be
// running. cfg is the study's; its Scheduler and Pruners must not be in use, and a decision that
// they do not make is an error. With a Runner in cfg the result can train again (RunBest, Confirm).
// To see what a search has found ReadResult is enough.
func Load(path string, cfg Config) (*Result, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, studydir.LogName)
	}
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.chooseScheduler(vfs.OS{}, path)
	l, err := newLedger(&cfg)
	if err != nil {
		return nil, err
	}
	_, err = readLog(vfs.OS{}, path, func(e *Event) error {
		if e.Kind == EventStudy {
			if err := e.Header.differs(cfg.header()); err != nil {
				return err
			}
			cfg.Name = e.Header.Name
		}
		return l.applyEvent(e, false)
	})
	if err != nil {
		return nil, fmt.Errorf("tune: load %s: %w", path, err)
	}
	return l.result(), nil
}

// maxNamed is how many curves have a colour and a name.
const maxNamed = 6

// TrainingCurves draws the metric of every trial over its steps into a file. The best trials have
// a colour and a name; the others are grey. The function that draws is Curves of package
// metrics/plot, which takes a file that ends in .png or .svg, or one like it.
func (r *Result) TrainingCurves(file string, draw func(file string, panels ...metrics.Panel) error) error {
	p := CurvePanel(r.View())
	p.Title = r.Name
	if err := draw(file, p); err != nil {
		return fmt.Errorf("tune: training curves of study %s: %w", r.Name, err)
	}
	return nil
}

// CurvePanel is the metric of every trial over its steps. The best trials have a colour and a name;
// the others are faint. Where a rule predicts how trials end, the curves of those that run, and of
// those with a name, go on to the predicted end.
func CurvePanel(v View) metrics.Panel {
	ranked := slices.Collect(v.Trials())
	// Feasible trials come first, and those without a value last.
	class := func(t *Trial) int {
		switch {
		case !isFinite(v.Result(t)):
			return 2
		case v.Violation(t) > 0:
			return 1
		}
		return 0
	}
	slices.SortStableFunc(ranked, func(a, b *Trial) int {
		return cmp.Or(cmp.Compare(class(a), class(b)), cmp.Compare(v.Score(v.Result(b)), v.Score(v.Result(a))))
	})
	p := metrics.Panel{Title: "trials", X: v.Fidelity().StepName(), Y: v.Metric(), FirstOnTop: true}
	for i := len(ranked) - 1; i >= maxNamed; i-- {
		p.Series = append(p.Series, ranked[i].curve("", true))
	}
	// Colours go by place, and the best trial is to have the first.
	for len(p.Series)%metrics.Colours != 0 {
		p.Series = append(p.Series, metrics.Series{Faint: true})
	}
	for _, t := range ranked[:min(len(ranked), maxNamed)] {
		name := t.Name()
		if value := v.Result(t); !math.IsNaN(value) {
			name += fmt.Sprintf(": %.4g", value)
		}
		p.Series = append(p.Series, t.curve(name, false))
	}
	return p
}

// curve is the trial's values over its steps, without those that are not finite.
func (t *Trial) curve(name string, faint bool) metrics.Series {
	s := metrics.Series{Name: name, Faint: faint}
	for _, r := range t.Reports {
		if !math.IsNaN(r.Value) && !math.IsInf(r.Value, 0) {
			s.X, s.Y = append(s.X, float64(r.Step)), append(s.Y, r.Value)
		}
	}
	if f := t.Forecast(); f != nil && (!faint || t.State == Running) {
		s.Ahead = &metrics.Ahead{X: float64(f.Step), Y: f.Mean, Low: f.Low, High: f.High}
	}
	return s
}

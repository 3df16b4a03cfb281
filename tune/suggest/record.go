package suggest

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/internal/forecast"
)

// A recordState says how far a trial got.
type recordState int

const (
	// recordRunning is a trial that is pending or running, without a result.
	recordRunning recordState = iota
	// recordComplete is a trial whose result counts.
	recordComplete
	// recordPruned is a trial that was stopped early, or is paused.
	recordPruned
	// recordFailed is a trial of which nothing counts.
	recordFailed
)

// A record is one trial as the models see it.
type record struct {
	number int
	// x has a value for each dim; NaN: the trial did not have it.
	x     []float64
	hash  uint64
	state recordState
	// score is oriented: larger is better.
	score float64
	// scores are those of all objectives, larger is better; nil if one is missing. violation is
	// above 0 if the trial is not feasible.
	scores    []float64
	violation float64
	// step is the last one that a pruned trial reported. Its value there counts.
	step  int
	ended time.Duration
	// seq is the event of the newest report. It orders trials that ended together.
	seq   uint64
	curve forecast.Curve
}

// finished says whether models learn from the trial: one that was stopped early has a value, too.
func (r *record) finished() bool { return r.state == recordComplete || r.state == recordPruned }

// compare orders finished records, best first: feasible ones before those that violate constraints,
// of which the least violating come first; complete before pruned ones; those by larger step, then
// by score. NaN is the worst score.
func (r *record) compare(o *record) int {
	if r.violation > 0 || o.violation > 0 {
		if r.violation != o.violation {
			return cmp.Compare(r.violation, o.violation)
		}
	}
	if r.state != o.state {
		return cmp.Compare(r.state, o.state)
	}
	if r.state == recordPruned && r.step != o.step {
		return cmp.Compare(o.step, r.step)
	}
	// Compare has NaN below all numbers: it is the worst score.
	return cmp.Compare(o.score, r.score)
}

// byEnd orders records as they ended.
func byEnd(a, b *record) int {
	return cmp.Or(cmp.Compare(a.ended, b.ended), cmp.Compare(a.seq, b.seq), cmp.Compare(a.number, b.number))
}

// byTheirEnd are the finished records, as they ended.
func byTheirEnd(recs []record) []*record {
	var done []*record
	for i := range recs {
		if recs[i].finished() {
			done = append(done, &recs[i])
		}
	}
	slices.SortFunc(done, byEnd)
	return done
}

// A reader turns views of one study into a model and records. What it keeps saves converting trials
// twice.
type reader struct {
	model *model
	recs  []record
	// done[i] says that recs[i] will not change any more.
	done []bool
	// stepped says that a trial has reported more than once, so that trials can be compared
	// before they end.
	stepped bool
}

// read returns the model and a record of each trial, which are good until the next call.
func (r *reader) read(v tune.View) (*model, []record) {
	if r.model == nil || len(r.recs) > v.Len() {
		*r = reader{model: newModel(v.Space())}
	}
	for i := range v.Len() {
		if i < len(r.done) && r.done[i] {
			continue
		}
		t := v.Trial(i)
		rec := r.model.record(v, t)
		r.stepped = r.stepped || len(t.Reports) > 1
		final := (t.State == tune.Completed || t.State == tune.Pruned) && len(t.Changes) == 0
		if i < len(r.recs) {
			r.recs[i], r.done[i] = rec, final
		} else {
			r.recs, r.done = append(r.recs, rec), append(r.done, final)
		}
	}
	return r.model, r.recs
}

// record is what is known of a trial now.
func (m *model) record(v tune.View, t *tune.Trial) record {
	r := record{number: t.Number, x: m.values(t.Params), ended: t.EndedAt, score: v.Score(v.Result(t))}
	r.hash = hash(r.x)
	r.scores, _ = tune.Scores(v, t)
	if r.violation = v.Violation(t); math.IsNaN(r.violation) {
		// There is no report yet.
		r.violation = 0
	}
	last, ok := t.Last()
	if ok {
		r.seq = last.Seq
	}
	switch {
	case t.State == tune.Pending || t.State == tune.Running:
		r.state = recordRunning
	case t.State == tune.Completed && ok:
		r.state = recordComplete
	case t.State == tune.Failed || !ok:
		r.state = recordFailed
	default:
		// The trial is pruned, paused or stopped.
		r.state, r.step, r.score = recordPruned, last.Step, v.Score(last.Value)
		if t.State == tune.Paused {
			r.ended = last.At
		}
	}
	r.curve = forecast.Curve{X: m.encode(r.x), Ended: r.state == recordComplete, Final: r.score}
	r.curve.Report(v, t)
	return r
}

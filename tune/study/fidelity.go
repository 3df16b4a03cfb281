package study

import (
	"cmp"

	"go.yaml.in/yaml/v3"

	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/schedule"
)

// fidelity is tune.Fidelity, if the file has one.
type fidelity struct{ *tune.Fidelity }

// read implements selfReader.
func (f *fidelity) read(r *reader, n *yaml.Node, field string) {
	f.Fidelity = new(tune.Fidelity)
	r.fill(n, field, settable(f.Fidelity))
}

// rule is the scheduler of a search over fidelities: steps that the file leaves out are those of
// the levels, and without a scheduler the best part at each level goes on to the next.
func (f fidelity) rule(r *reader, named tune.Scheduler, top *yaml.Node) tune.Scheduler {
	if f.Fidelity == nil || f.Validate() != nil {
		return named
	}
	key, _ := entryOf(top, "scheduler")
	low, high := f.Step(f.Low), f.Step(f.High)
	steps := func(least, most *int, eta *float64) {
		*eta = cmp.Or(*eta, f.Eta)
		*least, *most = cmp.Or(*least, low), cmp.Or(*most, high)
		if *least != low || *most != high {
			r.bad(key, "scheduler", "it has steps from %d to %d, and the levels of fidelity those from %d to %d: leave its steps out", *least, *most, low, high)
		}
	}
	switch s := named.(type) {
	case nil:
		if key != nil {
			// The file names fifo.
			return tune.FIFO{}
		}
		return &schedule.ASHA{Rule: schedule.Promotion, MinStep: low, MaxStep: high, Eta: f.Eta}
	case *schedule.ASHA:
		steps(&s.MinStep, &s.MaxStep, &s.Eta)
	case *schedule.Hyperband:
		least := low
		steps(&least, &s.MaxStep, &s.Eta)
	case *schedule.Predict:
		eta := 0.0
		steps(&s.MinStep, &s.MaxStep, &eta)
	}
	return named
}

// later says whether a scheduler is checked once the steps of the levels are known.
func later(made any) bool {
	switch s := made.(type) {
	case *schedule.ASHA:
		return s.MaxStep == 0
	case *schedule.Hyperband:
		return s.MaxStep == 0
	}
	return false
}

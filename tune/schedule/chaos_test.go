package schedule

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/paragon-train/paragon/tune"
)

// Trials that fail at any point, reports in any order, any number of slots: no scheduler may panic,
// hang, leave a trial paused for ever that its rule would let go on, or decide differently when the
// same events come again.
func TestSchedulersStandFailuresAndAnyOrder(t *testing.T) {
	makers := map[string]func() tune.Scheduler{
		"hyperband":       func() tune.Scheduler { return &Hyperband{MaxStep: 9} },
		"ray's hyperband": func() tune.Scheduler { return &Hyperband{MaxStep: 9, Table: RayTable} },
		"population":      func() tune.Scheduler { return &PBT{Interval: 2} },
		"synchronous":     func() tune.Scheduler { return &PBT{Interval: 2, Synchronous: true} },
		"known number":    func() tune.Scheduler { return &PBT{Interval: 2, Synchronous: true, Population: 17} },
		"promotion":       func() tune.Scheduler { return &ASHA{MaxStep: 9, Rule: Promotion, Brackets: 2} },
		"guarded":         func() tune.Scheduler { return &ASHA{MaxStep: 9, Rule: Promotion, Guard: &Guard{RandomShare: 0.2}} },
		"stopping":        func() tune.Scheduler { return &ASHA{MaxStep: 9, Brackets: 3, BracketRule: BracketsByCount} },
		"predict":         func() tune.Scheduler { return &Predict{MaxStep: 9} },
		"median":          func() tune.Scheduler { return Any{&MedianStopping{}, &Percentile{}} },
	}
	for name, maker := range makers {
		for seed := range uint64(12) {
			first := chaos(t, name, maker(), seed)
			if again := chaos(t, name, maker(), seed); first != again {
				t.Errorf("%s, seed %d: the same events were decided differently", name, seed)
			}
		}
	}
}

func chaos(t *testing.T, name string, s tune.Scheduler, seed uint64) (decisions string) {
	rng := rand.New(rand.NewPCG(seed, 0xc4a05))
	curves := make([][]float64, 17)
	for i := range curves {
		for range 9 {
			curves[i] = append(curves[i], rng.Float64())
		}
	}
	p := newPlayer(s, curves)
	p.ckpt = true
	var slots []int
	width := 1 + rng.IntN(6)
	for range 5000 {
		for len(slots) < width {
			n := p.next()
			if n < 0 {
				break
			}
			slots = append(slots, n)
		}
		if len(slots) == 0 {
			break
		}
		i := rng.IntN(len(slots))
		n := slots[i]
		if rng.IntN(25) == 0 {
			p.End(p.All[n], tune.Failed)
			s.Ended(p, n)
		} else {
			p.step(n)
		}
		if p.All[n].State != tune.Running {
			slots = append(slots[:i], slots[i+1:]...)
		}
	}
	if len(slots) > 0 {
		t.Fatalf("%s, seed %d: it does not end (reached %v)", name, seed, p.reached())
	}
	for _, trial := range p.All {
		// Promotion leaves those paused that are not among the best; Hyperband may leave
		// losers of a last round without a report.
		if _, population := s.(*PBT); population && !trial.State.Final() {
			t.Errorf("%s, seed %d: trial %d is left %s at step %d (%v)", name, seed, trial.Number, trial.State, lastStep(trial), p.reached())
		}
	}
	for _, l := range p.log {
		decisions += fmt.Sprintf("%d@%d %+v\n", l.trial, l.step, l.Decision)
	}
	return decisions
}

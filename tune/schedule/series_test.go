package schedule

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/tunetest"
)

func readOracle(t *testing.T) map[string]json.RawMessage {
	t.Helper()
	b, err := os.ReadFile("testdata/rules.json")
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]json.RawMessage)
	if err := json.Unmarshal(b, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

func into(t *testing.T, raw json.RawMessage, x any) {
	t.Helper()
	if raw == nil {
		t.Fatal("the oracle has no such case")
	}
	if err := json.Unmarshal(raw, x); err != nil {
		t.Fatal(err)
	}
}

// A line is one decision of a run.
type line struct {
	trial, step int
	tune.Decision
}

// A player runs trials with given curves under a scheduler, as a study would.
type player struct {
	*tunetest.View
	s      tune.Scheduler
	curves [][]float64 // score at step 1, 2, ...
	log    []line
	starts []int // trials in the order in which they started or went on
	spent  int   // reports
	at     []int // of each trial: its next step
	orders map[int]tune.TrialDecision
	ckpt   bool // trials keep a checkpoint at each report
}

func newPlayer(s tune.Scheduler, curves [][]float64) *player {
	return &player{View: &tunetest.View{Direction: tune.Max}, s: s, curves: curves, orders: make(map[int]tune.TrialDecision)}
}

// start starts a new trial.
func (p *player) start() int {
	t := p.Add(tune.Params{})
	p.at = append(p.at, 1)
	p.NoNew = p.Len() == len(p.curves)
	p.goOn(t.Number)
	return t.Number
}

func (p *player) goOn(trial int) {
	p.All[trial].State = tune.Running
	p.starts = append(p.starts, trial)
	p.s.Started(p, trial)
}

// step makes one report of a running trial.
func (p *player) step(trial int) {
	t := p.All[trial]
	step := p.at[trial]
	if step > len(p.curves[trial]) { // paused at its last step
		p.obey(trial, tune.Complete)
		return
	}
	if o, ok := p.orders[trial]; ok {
		delete(p.orders, trial)
		p.Report(t, step, p.curves[trial][step-1])
		p.spent++
		p.at[trial]++
		p.obey(trial, o.Action)
		return
	}
	p.Report(t, step, p.curves[trial][step-1])
	if p.ckpt {
		t.Checkpoints = append(t.Checkpoints, tune.Checkpoint{Step: step})
	}
	p.spent++
	p.at[trial]++
	d := p.s.Reported(p, trial, rand.New(rand.NewPCG(uint64(trial), uint64(step))))
	p.log = append(p.log, line{trial, step, d})
	for _, o := range d.Others {
		other := p.All[o.Trial]
		switch {
		case other.State == tune.Paused && o.Action == tune.GoOn:
			other.State = tune.Pending
		case other.State == tune.Paused:
			p.obey(o.Trial, o.Action)
		case !other.State.Final():
			p.orders[o.Trial] = o
		}
	}
	p.obey(trial, d.Action)
	if t.State == tune.Running && p.at[trial] > len(p.curves[trial]) {
		p.obey(trial, tune.Complete)
	}
}

func (p *player) obey(trial int, a tune.Action) {
	t := p.All[trial]
	switch a {
	case tune.Stop:
		p.End(t, tune.Pruned)
	case tune.Complete:
		p.End(t, tune.Completed)
	case tune.Pause:
		t.State = tune.Paused
	}
	if t.State.Final() {
		p.s.Ended(p, trial)
	}
}

// roundRobin starts all trials and lets each running one report in turn.
func (p *player) roundRobin() *player {
	for range p.curves {
		p.start()
	}
	for running := true; running; {
		running = false
		for _, t := range p.All {
			if t.State == tune.Pending {
				p.goOn(t.Number)
			}
			if t.State == tune.Running {
				p.step(t.Number)
				running = true
			}
		}
	}
	return p
}

// slots runs with so many trials at once, in turn, each slot asking Next when it is free.
func (p *player) slots(n int) *player {
	slot := make([]int, n)
	for i := range slot {
		slot[i] = -1
	}
	for busy := true; busy; {
		busy = false
		for i := range slot {
			if slot[i] < 0 {
				slot[i] = p.next()
			}
			if slot[i] < 0 {
				continue
			}
			busy = true
			p.step(slot[i])
			if p.All[slot[i]].State != tune.Running {
				slot[i] = -1
			}
		}
	}
	return p
}

func (p *player) next() int {
	for _, t := range p.All {
		if t.State == tune.Pending {
			p.goOn(t.Number)
			return t.Number
		}
	}
	switch c := p.s.Next(p); c.Kind {
	case tune.ChoosePaused:
		p.goOn(c.Trial)
		return c.Trial
	case tune.ChooseNew:
		if p.Len() < len(p.curves) {
			return p.start()
		}
	}
	return -1
}

// reached has the last step of each trial.
func (p *player) reached() []int {
	all := make([]int, p.Len())
	for i, t := range p.All {
		all[i] = lastStep(t)
	}
	return all
}

// lastStep is the step of a trial's newest report, or -1.
func lastStep(t *tune.Trial) int {
	if step, ok := t.LastStep(); ok {
		return step
	}
	return -1
}

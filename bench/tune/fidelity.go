package main

import (
	"container/heap"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math"
	"strings"
	"time"

	"github.com/paragon-train/paragon/metrics"
	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/schedule"
	"github.com/paragon-train/paragon/tune/suggest/suggesttest"
)

// A faithful is a function to maximize that has a cheaper form at each fidelity z below 1.
type faithful struct {
	name string
	dims int
	// best is the point with the largest value at z = 1. Points are in the unit cube.
	best  []float64
	value func(x []float64, z float64) float64
}

// faithfuls are functions of Kandasamy et al. (2017), Multi-fidelity Bayesian Optimisation with
// Continuous Approximations, appendix D. Currin's has its own factor of z, by which a fifth of what
// the second parameter does fades.
var faithfuls = []faithful{
	{"Branin", 2, []float64{(math.Pi + 5) / 15, 2.275 / 15}, branin},
	{"Currin", 2, []float64{0.21667, 0}, currin},
	{"Hartmann6", 6, []float64{0.20169, 0.150011, 0.476874, 0.275332, 0.311652, 0.6573}, hartmann6},
	{"Borehole", 8, []float64{1, 0, 1, 1, 1, 0, 0, 1}, borehole},
}

func branin(u []float64, z float64) float64 {
	x, y := 15*u[0]-5, 15*u[1]
	b, c, t := 5.1/(4*math.Pi*math.Pi)-0.01*(1-z), 5/math.Pi-0.1*(1-z), 1/(8*math.Pi)+0.05*(1-z)
	e := y - b*x*x + c*x - 6
	return -(e*e + 10*(1-t)*math.Cos(x) + 10)
}

// currin is Currin's exponential function; its level z is that of the factor.
func currin(x []float64, z float64) float64 {
	factor := 1.0
	if x[1] > 0 {
		factor -= (0.8 + 0.2*z) * math.Exp(-1/(2*x[1]))
	}
	a := x[0]
	return factor * (2300*a*a*a + 1900*a*a + 2092*a + 60) / (100*a*a*a + 500*a*a + 4*a + 20)
}

var (
	hartmannA = [4][6]float64{{10, 3, 17, 3.5, 1.7, 8}, {0.05, 10, 17, 0.1, 8, 14}, {3, 3.5, 1.7, 10, 17, 8}, {17, 8, 0.05, 10, 0.1, 14}}
	hartmannP = [4][6]float64{{0.1312, 0.1696, 0.5569, 0.0124, 0.8283, 0.5886}, {0.2329, 0.4135, 0.8307, 0.3736, 0.1004, 0.9991},
		{0.2348, 0.1451, 0.3522, 0.2883, 0.3047, 0.6650}, {0.4047, 0.8828, 0.8732, 0.5743, 0.1091, 0.0381}}
)

// hartmann6 is Hartmann's function of six numbers; at lower levels its four peaks have other
// heights.
func hartmann6(x []float64, z float64) float64 {
	sum := 0.0
	for i, alpha := range []float64{1, 1.2, 3, 3.2} {
		e := 0.0
		for j := range x {
			e += hartmannA[i][j] * (x[j] - hartmannP[i][j]) * (x[j] - hartmannP[i][j])
		}
		sum += (alpha - 0.1*(1-z)) * math.Exp(-e)
	}
	return sum
}

// borehole is the flow of water through a borehole; level 0 is the cheaper model of it.
func borehole(u []float64, z float64) float64 {
	rw, r, tu, hu := 0.05+0.1*u[0], 100+49900*u[1], 63070+52530*u[2], 990+120*u[3]
	tl, hl, l, kw := 63.1+52.9*u[4], 700+120*u[5], 1120+560*u[6], 9855+2190*u[7]
	f := math.Log(r / rw)
	rest := 2*l*tu/(f*rw*rw*kw) + tu/tl
	return z*2*math.Pi*tu*(hu-hl)/(f*(1+rest)) + (1-z)*5*tu*(hu-hl)/(f*(1.5+rest))
}

// A fidelityRule is a scheduler by name, for trials of so many steps at most.
type fidelityRule struct {
	name string
	make func(last int) tune.Scheduler
}

// fidelityRules are the rules by which trials go on from level to level. With none all run at the
// highest one at once.
var fidelityRules = []fidelityRule{
	{"none", func(int) tune.Scheduler { return tune.FIFO{} }},
	{"promotion", func(last int) tune.Scheduler { return &schedule.ASHA{Rule: schedule.Promotion, MaxStep: last} }},
	{"hyperband", func(last int) tune.Scheduler { return &schedule.Hyperband{MaxStep: last} }},
	{"predict", func(last int) tune.Scheduler { return &schedule.Predict{MaxStep: last} }},
}

// Levels of the fidelities: a ninth, a third and all of a training.
const leastLevel, mostLevel = 9, 81

// A levelRun is a run of a trial that will end.
type levelRun struct {
	at    float64
	order int
	trial tune.Trial
}

// levelRuns are a heap: the run that ends first is at its top.
type levelRuns []levelRun

func (l levelRuns) Len() int { return len(l) }
func (l levelRuns) Less(i, j int) bool {
	return l[i].at < l[j].at || l[i].at == l[j].at && l[i].order < l[j].order
}
func (l levelRuns) Swap(i, j int) { l[i], l[j] = l[j], l[i] }
func (l *levelRuns) Push(x any)   { *l = append(*l, x.(levelRun)) }
func (l *levelRuns) Pop() any {
	last := len(*l) - 1
	x := (*l)[last]
	*l = (*l)[:last]
	return x
}

// searchLevels searches on a simulated clock until the runs have cost the budget: one at level z
// costs z. It returns the regret of the best trial at the highest level when each part of the
// budget was spent. Until a trial has reached that level it is the regret of the middle of the
// space.
func searchLevels(f faithful, c tune.Config, low, budget float64, parts []float64) ([]float64, error) {
	now, spent, order := 0.0, 0.0, 0
	for i := range f.dims {
		c.Space = append(c.Space, tune.Real(fmt.Sprintf("x%d", i), 0, 1))
	}
	c.Fidelity, c.Metric, c.Mode, c.Samples = &tune.Fidelity{Parameter: "level", Low: low, High: mostLevel}, "value", tune.Max, -1
	c.Now = func() time.Time { return time.Time{}.Add(time.Duration(now * float64(time.Second))) }
	c.Logger = slog.New(slog.DiscardHandler)
	s, err := tune.NewStudy(c)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	var running levelRuns
	var regrets []float64
	middle := make([]float64, f.dims)
	for i := range middle {
		middle[i] = 0.5
	}
	best := f.value(middle, 1)
	for len(regrets) < len(parts) {
		for len(running) < c.Parallel {
			x, err := s.TryAsk()
			if errors.Is(err, tune.ErrWait) {
				break
			}
			if err != nil {
				return nil, err
			}
			order++
			heap.Push(&running, levelRun{now + x.Params.Float("level")/mostLevel, order, x})
		}
		if len(running) == 0 {
			return nil, errors.New("tune: the search waits, and nothing runs")
		}
		r := heap.Pop(&running).(levelRun)
		z := r.trial.Params.Float("level") / mostLevel
		now, spent = r.at, spent+z
		x := make([]float64, f.dims)
		for i := range x {
			x[i] = r.trial.Params.Float(fmt.Sprintf("x%d", i))
		}
		value := f.value(x, z)
		if z == 1 {
			best = max(best, value)
		}
		if _, err := s.Tell(r.trial.Number, 1, map[string]float64{"value": value}); err != nil {
			return nil, err
		}
		if err := s.Finish(r.trial.Number, nil); err != nil {
			return nil, err
		}
		for len(regrets) < len(parts) && spent >= parts[len(regrets)]*budget-1e-9 {
			regrets = append(regrets, f.value(f.best, 1)-best)
		}
	}
	return regrets, nil
}

// runFidelities measures searches that try trials at lower fidelities first against those that do
// not.
func runFidelities(args []string, w io.Writer) error {
	f := flag.NewFlagSet("tune", flag.ContinueOnError)
	f.SetOutput(w)
	f.Bool("fidelities", true, "measure searches over fidelities")
	suggesters := f.String("suggesters", "Auto", "suggesters, with commas")
	workers := f.String("workers", "1,8", "numbers of runs at a time, with commas")
	seeds := f.Int("seeds", 20, "searches of each cell")
	budget := f.Float64("trainings", 30, "the budget in runs at the highest level")
	if err := f.Parse(args); err != nil {
		return err
	}
	some, err := byName("suggester", *suggesters, contestants, contestantName)
	if err != nil {
		return err
	}
	counts, err := numbers(*workers)
	if err != nil {
		return err
	}
	parts := []float64{0.25, 0.5, 1}
	table := metrics.Table{Title: "Regret of the best trial at the highest level, median [quartiles] over seeds, at parts of the budget",
		Columns: []string{"function", "workers", "suggester", "rule", "25 %", "50 %", "100 %"}, Note: fmt.Sprintf("%s; %s", machine(), strings.Join(append([]string{"bench/tune"}, args...), " "))}
	for _, cell := range fidelityCells(counts, some) {
		row, err := cell.row(*seeds, *budget, parts)
		if err != nil {
			return err
		}
		table.Row(row...)
	}
	_, err = table.WriteTo(w)
	return err
}

// A fidelityCell is searches that differ by their seeds alone.
type fidelityCell struct {
	function  faithful
	workers   int
	suggester contestant
	rule      fidelityRule
}

// fidelityCells are all cells, in the order of the table.
func fidelityCells(workers []int, suggesters []contestant) (all []fidelityCell) {
	for _, function := range faithfuls {
		for _, n := range workers {
			for _, c := range suggesters {
				for _, rule := range fidelityRules {
					all = append(all, fidelityCell{function, n, c, rule})
				}
			}
		}
	}
	return all
}

// row makes the searches, and returns the quartiles of the regrets at parts of the budget.
func (c *fidelityCell) row(seeds int, budget float64, parts []float64) ([]any, error) {
	low := float64(leastLevel)
	if c.rule.name == "none" {
		low = mostLevel
	}
	regrets := make([][]float64, len(parts))
	for seed := range seeds {
		cfg := tune.Config{Suggester: c.suggester.make(), Scheduler: c.rule.make(mostLevel), Parallel: c.workers, Seed: uint64(seed)}
		one, err := searchLevels(c.function, cfg, low, budget, parts)
		if err != nil {
			return nil, err
		}
		for i, r := range one {
			regrets[i] = append(regrets[i], r)
		}
	}
	row := []any{c.function.name, c.workers, c.suggester.name, c.rule.name}
	for _, r := range regrets {
		row = append(row, fmt.Sprintf("%.3g [%.3g %.3g]", suggesttest.Quantile(r, 0.5), suggesttest.Quantile(r, 0.25), suggesttest.Quantile(r, 0.75)))
	}
	return row, nil
}

package main

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/suggest"
	"github.com/paragon-train/paragon/tune/suggest/suggesttest"
)

// costFactor is how much dearer the dearest trial is than the cheapest.
const costFactor = 10

// pricedProblem is a function whose trials take different times. Trials take 10 to 100 minutes: the
// logarithm is linear in one parameter, or in all of them, upwards or downwards, so that for some
// functions the best trials are cheap and for others they are dear.
type pricedProblem struct {
	suggesttest.Problem
	kind    string
	minutes func(tune.Params) float64
}

// pricings are the ways in which a function's trials are priced.
var pricings = []string{"first up", "first down", "all up", "all down"}

// priced gives a function a price by a pricing's name: "first" or "all" says which parameters
// count, "up" or "down" in which direction a trial becomes dear. A parameter that a trial does not
// have does not count.
func priced(p suggesttest.Problem, pricing string) pricedProblem {
	which, direction, _ := strings.Cut(pricing, " ")
	return pricedProblem{p, pricing, func(x tune.Params) float64 {
		sum, n := 0.0, 0
		for _, q := range p.Space {
			v, ok := x.Get(q.Name)
			if !ok || which == "first" && n > 0 {
				continue
			}
			sum, n = sum+unit(q, v), n+1
		}
		u := 0.5
		if n > 0 {
			u = sum / float64(n)
		}
		if direction == "down" {
			u = 1 - u
		}
		return 10 * math.Pow(costFactor, u)
	}}
}

// unit is where a value is in its parameter's range, from 0 to 1.
func unit(q tune.Param, v any) float64 {
	if i := slices.Index(q.Values, v); i >= 0 {
		return float64(i) / float64(max(len(q.Values)-1, 1))
	}
	var x float64
	switch v := v.(type) {
	case int64:
		x = float64(v)
	case float64:
		x = v
	}
	if q.Kind == tune.KindNormal || q.Kind == tune.KindLogNormal {
		return 0.5
	}
	low, high := q.Low, q.High
	if q.Spec.Log {
		x, low, high = math.Log(x), math.Log(low), math.Log(high)
	}
	return min(max((x-low)/(high-low), 0), 1)
}

// costArms are the suggesters that are compared.
var costArms = []contestant{
	{"random", func() tune.Suggester { return tune.Random{} }},
	{"Auto", func() tune.Suggester { return &suggest.Auto{} }},
	{"Auto per time", func() tune.Suggester { return &suggest.Auto{Per: suggest.Time} }},
	{"TPE", func() tune.Suggester { return &suggest.TPE{} }},
}

// costSettings are what the command line asks for.
type costSettings struct {
	seeds, firstSeed, workers, trials int
	parallel                          []int
	arms                              []contestant
	problems                          []pricedProblem
	deadline                          bool
}

// costParts are the parts of the time at which the regret is taken.
var costParts = []float64{0.25, 0.5, 1}

// parseCosts reads the flags. The first suggester of costArms is always there: the others are
// compared with it.
func parseCosts(args []string, w io.Writer) (s costSettings, err error) {
	f := flag.NewFlagSet("tune", flag.ContinueOnError)
	f.SetOutput(w)
	f.Bool("costs", true, "measure searches whose trials cost different times")
	f.IntVar(&s.seeds, "seeds", 20, "searches per cell of the table")
	f.IntVar(&s.firstSeed, "first-seed", 0, "the first search's seed; the others follow it")
	f.IntVar(&s.workers, "workers", runtime.GOMAXPROCS(0), "searches at a time")
	f.IntVar(&s.trials, "trials", 50, "the budget, in trials of the mean time of random ones")
	f.BoolVar(&s.deadline, "deadline", true, "the searches know when their time ends")
	parallel := f.String("parallel", "1,8", "numbers of trials that run at once, with commas")
	functions := f.String("functions", "tuning", "tuning, judging, branches, or names of functions, with commas")
	only := f.String("only", "", "names of suggesters, with commas; default all")
	if err := f.Parse(args); err != nil {
		return s, err
	}
	if s.parallel, err = numbers(*parallel); err != nil {
		return s, err
	}
	if s.firstSeed < 0 || s.seeds < 1 || s.workers < 1 || s.trials < 1 {
		return s, fmt.Errorf("tune: first seed %d, %d seeds, %d workers, %d trials: want at least 0, and 1 of the others", s.firstSeed, s.seeds, s.workers, s.trials)
	}
	all, err := problems(*functions)
	if err != nil {
		return s, err
	}
	for _, p := range all {
		for _, pricing := range pricings {
			s.problems = append(s.problems, priced(p, pricing))
		}
	}
	s.arms = costArms
	if *only != "" {
		s.arms, err = byName("suggester", *only, costArms, contestantName)
	}
	if s.arms = slices.DeleteFunc(slices.Clone(s.arms), func(c contestant) bool { return c.name == costArms[0].name }); err == nil {
		// The others are compared with the first.
		s.arms = append([]contestant{costArms[0]}, s.arms...)
	}
	return s, err
}

// An ending is a trial that will end.
type ending struct {
	at    time.Duration
	trial tune.Trial
}

// endings are a heap: the trial that ends first is at its top, and of several the one that began
// first, so that a search repeats.
type endings []ending

func (e endings) Len() int { return len(e) }
func (e endings) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(e[i].at, e[j].at), cmp.Compare(e[i].trial.Number, e[j].trial.Number)) < 0
}
func (e endings) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *endings) Push(x any)   { *e = append(*e, x.(ending)) }
func (e *endings) Pop() any {
	x := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return x
}

package main

import (
	"cmp"
	"container/heap"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
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
		s.arms, err = byName("suggester", *only, costArms, func(c contestant) string { return c.name })
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

// costSearch is one search on a simulated clock. It returns the regrets at costParts of the time,
// and the number of trials that ended in it.
func costSearch(p pricedProblem, suggester tune.Suggester, parallel int, s costSettings, seed uint64) ([]float64, int, error) {
	rng := rand.New(rand.NewPCG(11, 12))
	mean := 0.0
	const draws = 300
	for range draws {
		x, err := p.Space.Fill(tune.Params{}, func(q tune.Param, _ tune.Params) (any, error) { return q.FromUnit(rng.Float64()), nil })
		if err != nil {
			return nil, 0, err
		}
		mean += p.minutes(x) / draws
	}
	budget := time.Duration(mean * float64(s.trials) / float64(parallel) * float64(time.Minute))
	var begin time.Time
	var now time.Duration
	cfg := tune.Config{Space: p.Space, Metric: "value", Mode: tune.Min, Samples: -1, Seed: seed, Parallel: parallel, Suggester: suggester,
		Now: func() time.Time { return begin.Add(now) }, Logger: slog.New(slog.DiscardHandler)}
	if s.deadline {
		cfg.Deadline = begin.Add(budget)
	}
	study, err := tune.NewStudy(cfg)
	if err != nil {
		return nil, 0, err
	}
	defer study.Close()
	noise := rand.New(rand.NewPCG(seed, 13))
	var running endings
	var regrets []float64
	best, reported, ended := math.NaN(), math.NaN(), 0
	done := false
	for {
		for len(running) < parallel && !done {
			t, err := study.TryAsk()
			if errors.Is(err, tune.ErrDone) || errors.Is(err, tune.ErrWait) {
				done = errors.Is(err, tune.ErrDone)
				break
			}
			if err != nil {
				return nil, 0, err
			}
			heap.Push(&running, ending{now + time.Duration(p.minutes(t.Params)*float64(time.Minute)), t})
		}
		next := time.Duration(math.MaxInt64)
		if len(running) > 0 {
			next = running[0].at
		}
		for len(regrets) < len(costParts) && float64(next) > costParts[len(regrets)]*float64(budget) {
			regrets = append(regrets, best-p.Min)
		}
		if len(regrets) == len(costParts) {
			return regrets, ended, nil
		}
		e := heap.Pop(&running).(ending)
		now = e.at
		value := p.Value(e.trial.Params)
		shown := value + p.Noise*noise.NormFloat64()
		if _, err := study.Tell(e.trial.Number, 1, map[string]float64{"value": shown}); err != nil {
			return nil, 0, err
		}
		if err := study.Finish(e.trial.Number, nil); err != nil {
			return nil, 0, err
		}
		ended++
		if !(reported <= shown) {
			best, reported = value, shown
		}
	}
}

// runCosts prints the tables.
func runCosts(args []string, w io.Writer) error {
	s, err := parseCosts(args, w)
	if err != nil {
		return err
	}
	type cell struct {
		arm      string
		parallel int
		problem  int
		seed     int
	}
	var cells []cell
	for _, parallel := range s.parallel {
		for _, arm := range s.arms {
			for i := range s.problems {
				for seed := range s.seeds {
					cells = append(cells, cell{arm.name, parallel, i, s.firstSeed + seed})
				}
			}
		}
	}
	regrets, counts, errs := make(map[cell][]float64), make(map[cell]int), make([]error, len(cells))
	var mu sync.Mutex
	slots := make(chan struct{}, s.workers)
	var all sync.WaitGroup
	for i, c := range cells {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			arm := s.arms[slices.IndexFunc(s.arms, func(a contestant) bool { return a.name == c.arm })]
			r, n, err := costSearch(s.problems[c.problem], arm.make(), c.parallel, s, uint64(c.seed))
			mu.Lock()
			defer mu.Unlock()
			regrets[c], counts[c], errs[i] = r, n, err
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	fmt.Fprintf(w, "Regret as a part of random's median at the whole time: geometric means over %d functions of the quartiles over %d seeds.\n%s; bench/tune %s\n\n",
		len(s.problems), s.seeds, machine(), strings.Join(args, " "))
	for _, kind := range append([]string{""}, pricings...) {
		fmt.Fprintf(w, "| %s | at once | trials |", cmp.Or(kind, "all"))
		for _, part := range costParts {
			fmt.Fprintf(w, " %s of the time | quartiles |", percent(part))
		}
		fmt.Fprintf(w, "\n| --- | --- | --- |%s\n", strings.Repeat(" --- | --- |", len(costParts)))
		for _, parallel := range s.parallel {
			for _, arm := range s.arms {
				trials, n := 0, 0

				// The quartiles are sums of logarithms.
				quartiles := make([][3]float64, len(costParts))
				for i, p := range s.problems {
					if kind != "" && p.kind != kind {
						continue
					}
					n++
					var base []float64
					values := make([][]float64, len(costParts))
					for seed := range s.seeds {
						c := cell{arm.name, parallel, i, s.firstSeed + seed}
						trials += counts[c]
						for k, r := range regrets[c] {
							values[k] = append(values[k], worstOf(r))
						}
						c.arm = s.arms[0].name
						base = append(base, worstOf(regrets[c][len(costParts)-1]))
					}
					for k := range costParts {
						for j, q := range []float64{0.25, 0.5, 0.75} {
							quartiles[k][j] += math.Log(max(suggesttest.Quantile(values[k], q)/suggesttest.Median(base), 0.01))
						}
					}
				}
				fmt.Fprintf(w, "| %s | %d | %.0f |", arm.name, parallel, float64(trials)/float64(n*s.seeds))
				for k := range costParts {
					part := func(j int) float64 { return math.Exp(quartiles[k][j] / float64(n)) }
					fmt.Fprintf(w, " %.3f | %.3f, %.3f |", part(1), part(0), part(2))
				}
				fmt.Fprintln(w)
			}
		}
		fmt.Fprintln(w)
	}
	return nil
}

// worstOf replaces the regret of a search in which no trial has ended yet.
func worstOf(r float64) float64 {
	if math.IsNaN(r) {
		return 1e6
	}
	return r
}

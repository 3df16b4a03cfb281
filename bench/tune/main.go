// Command tune measures the suggesters of package tune on functions whose minimum is known.
//
//	go run ./bench/tune
//	go run ./bench/tune --seeds 20 --only TPE,random --trials 50,100,200 --parallel 1,8
//
// Each row is a suggester, a number of trials and how many run at once, each lasting as long as the others. Per function the
// table has the median and, in brackets, the mean over the seeds of the simple regret: the best value found minus the
// minimum. The last column is the mean time of one
// trial, nearly all of it the proposal; with --workers 1 on a quiet machine that is what it costs.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/paragon-train/paragon/metrics"
	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/suggest"
	"github.com/paragon-train/paragon/tune/suggest/suggesttest"
)

// A contestant is a suggester by name.
type contestant struct {
	name string
	make func() tune.Suggester
}

var contestants = []contestant{
	{"random", func() tune.Suggester { return tune.Random{} }},
	{"Sobol", func() tune.Suggester { return &suggest.Sobol{} }},
	{"TPE", func() tune.Suggester { return &suggest.TPE{} }},
	{"TPE-univariate", func() tune.Suggester { return &suggest.TPE{Univariate: true} }},
	{"TPE-optuna", func() tune.Suggester { return &suggest.TPE{Rules: suggest.Optuna} }},
	{"TPE-optuna-univariate", func() tune.Suggester { return &suggest.TPE{Rules: suggest.Optuna, Univariate: true} }},
	{"TPE-hyperopt", func() tune.Suggester { return &suggest.TPE{Rules: suggest.Hyperopt, Univariate: true} }},
	{"GP", func() tune.Suggester { return &suggest.GP{} }},
	{"CMAES", func() tune.Suggester { return &suggest.CMAES{} }},
}

// settings are what the command line asks for.
type settings struct {
	seeds, workers   int
	trials, parallel []int
	contestants      []contestant
}

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(2)
	}
}

func parse(args []string, w io.Writer) (settings, error) {
	var s settings
	f := flag.NewFlagSet("tune", flag.ContinueOnError)
	f.SetOutput(w)
	f.IntVar(&s.seeds, "seeds", 20, "searches per cell of the table")
	f.IntVar(&s.workers, "workers", runtime.GOMAXPROCS(0), "searches at a time")
	trials := f.String("trials", "100", "numbers of trials, with commas")
	parallel := f.String("parallel", "1,8", "numbers of trials that run at once, with commas")
	only := f.String("only", "", "names of suggesters, with commas; default all")
	if err := f.Parse(args); err != nil {
		return s, err
	}
	var err error
	if s.trials, err = numbers(*trials); err == nil {
		s.parallel, err = numbers(*parallel)
	}
	if err != nil {
		return s, err
	}
	if s.seeds < 1 || s.workers < 1 {
		return s, fmt.Errorf("tune: %d seeds, %d workers: want at least 1", s.seeds, s.workers)
	}
	if *only == "" {
		s.contestants = contestants
		return s, nil
	}
	var names []string
	for _, c := range contestants {
		names = append(names, c.name)
	}
	for _, name := range strings.Split(*only, ",") {
		i := slices.Index(names, name)
		if i < 0 {
			return s, fmt.Errorf("tune: suggester %q: want some of %s", name, strings.Join(names, ","))
		}
		s.contestants = append(s.contestants, contestants[i])
	}
	return s, nil
}

func numbers(text string) ([]int, error) {
	var all []int
	for _, part := range strings.Split(text, ",") {
		n, err := strconv.Atoi(part)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("tune: number %q: want whole numbers above 0, with commas", part)
		}
		all = append(all, n)
	}
	return all, nil
}

func run(args []string, w io.Writer) error {
	s, err := parse(args, w)
	if err != nil {
		return err
	}
	problems := []suggesttest.Problem{suggesttest.Branin(), suggesttest.Hartmann6(), suggesttest.Mixed()}
	head := []string{"suggester", "trials", "at once"}
	for _, p := range problems {
		head = append(head, p.Name)
	}
	table := metrics.Table{
		Title:   fmt.Sprintf("Simple regret, median (mean) of %d searches", s.seeds),
		Columns: append(head, "per trial"),
		Note:    fmt.Sprintf("%s; %s", machine(), strings.Join(append([]string{"bench/tune"}, args...), " ")),
	}
	for _, trials := range s.trials {
		for _, c := range s.contestants {
			for _, parallel := range s.parallel {
				row := []any{c.name, trials, parallel}
				var spent time.Duration
				for _, p := range problems {
					regrets, d, err := measure(p, c, trials, parallel, s)
					if err != nil {
						return err
					}
					spent += d
					row = append(row, fmt.Sprintf("%.4f (%.4f)", suggesttest.Median(regrets), suggesttest.Mean(regrets)))
				}
				table.Row(append(row, (spent / time.Duration(s.seeds*trials*len(problems))).Round(time.Microsecond).String())...)
			}
		}
	}
	_, err = table.WriteTo(w)
	return err
}

// measure makes the searches of one cell, several at a time. The time is the sum over them.
func measure(p suggesttest.Problem, c contestant, trials, parallel int, s settings) ([]float64, time.Duration, error) {
	regrets, times, errs := make([]float64, s.seeds), make([]time.Duration, s.seeds), make([]error, s.seeds)
	slots := make(chan struct{}, s.workers)
	var all sync.WaitGroup
	for seed := range s.seeds {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			start := time.Now()
			regrets[seed], _, errs[seed] = p.Run(c.make(), trials, parallel, uint64(seed))
			times[seed] = time.Since(start)
		})
	}
	all.Wait()
	var total time.Duration
	for _, t := range times {
		total += t
	}
	return regrets, total, errors.Join(errs...)
}

// machine says where the numbers are from.
func machine() string {
	commit := "no commit"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				commit = "commit " + s.Value[:min(12, len(s.Value))]
			}
		}
	}
	return fmt.Sprintf("%s/%s, %d processors, %s, %s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version(), commit)
}

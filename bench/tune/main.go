// Command tune measures the suggesters of package tune on functions whose minimum is known.
//
//	go run ./bench/tune
//	go run ./bench/tune --functions judging --only TPE,GP --save ours.json
//	go run ./bench/tune --functions judging --only none --program 'peer=python3 peer.py' --save peer.json
//	go run ./bench/tune --functions judging --only none --load ours.json,peer.json
//
// The simple regret of a search is the value of its best trial minus the function's minimum; where
// trials report with noise, the best is the one that reported the least. The functions tuning are
// those that the suggesters' constants were chosen by, those judging are others, of the same kinds,
// and branches are drawn spaces with conditional parameters.
//
// The first table has for each function the median and the quartiles over the seeds. The second
// divides each median by random search's on the same function, one trial at a time, and has the
// geometric mean of these ratios for each kind and for all functions; for all functions it has the
// quartiles' means, too. A ratio below a hundredth counts as a hundredth. The last column is the
// mean time of one trial, nearly all of it the proposal; with --workers 1 on a quiet machine that
// is what it costs.
//
// --at adds tables of what the searches had reached earlier. The first n proposals of a search are
// those of a search of n trials, so a row with n trials is the same either way.
//
// A program given with --program speaks the protocol of suggest.External, so any other library can
// be compared on the same functions. --save writes all regrets as JSON, --load adds those of such
// files to the tables.
//
// With --curves it measures rules that stop trials, with suggesters, on families of learning curves
// and a simulated clock (package curvetest), and has flags of its own:
//
//	go run ./bench/tune --curves judging --rules none,asha,hyperband,median --suggesters Auto,TPE,random --workers 1,8,32 --seeds 20 --at 10,25,50,100
//	go run ./bench/tune --curves judging --suggesters none --program 'Optuna=out/curves/bin/python bench/tune/peer_curves.py optuna' --program-rules none,sha,hyperband,median
//	bench/tune/peers.sh --seeds 20 --suggesters Auto,TPE --workers 8
//
// With --curves and --fidelity trials train anew for a ninth, a third and all of their steps, as
// the rule decides. With --fidelities it measures, on functions with cheaper forms, searches that
// try trials at lower fidelities first against those that do not:
//
//	go run ./bench/tune --fidelities --suggesters Auto,random --workers 1,8 --seeds 20
//
// The first table of --curves has for each rule and suggester the mean regret and its quartiles,
// over problems and seeds, at parts of the budget, the numbers of trials and of those that trained
// to their last step, and the mean of proposals' and of decisions' times with the mean of the
// searches' 99th percentiles. Further tables have the regret of each kind. All but the times are
// the same for the same seeds.
//
// With --costs it measures searches whose trials take 10 to 100 minutes of a simulated clock, by
// one parameter or by all, with a deadline:
//
//	go run ./bench/tune --costs --functions judging --trials 30 --seeds 10
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

	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/suggest"
	"github.com/paragon-train/paragon/tune/suggest/suggesttest"
	"github.com/paragon-train/paragon/tune/tunetest"
)

// A contestant is a suggester by name.
type contestant struct {
	name string
	make func() tune.Suggester
}

func contestantName(c contestant) string { return c.name }

// contestants are those of --only. Random search is the first: the others are compared with it.
var contestants = []contestant{
	{"random", func() tune.Suggester { return tune.Random{} }},
	{"Sobol", func() tune.Suggester { return &suggest.Sobol{} }},
	{"Auto", func() tune.Suggester { return &suggest.Auto{} }},
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
	seeds, workers, trials int
	parallel, at           []int
	firstSeed              int
	contestants            []contestant
	problems               []suggesttest.Problem
	save                   string
	load                   []string
}

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(2)
	}
}

// parse reads the flags of searches of functions.
func parse(args []string, w io.Writer) (settings, error) {
	var s settings
	f := flag.NewFlagSet("tune", flag.ContinueOnError)
	f.SetOutput(w)
	f.IntVar(&s.seeds, "seeds", 20, "searches per cell of the table")
	f.IntVar(&s.firstSeed, "first-seed", 0, "the first search's seed; the others follow it")
	f.IntVar(&s.workers, "workers", runtime.GOMAXPROCS(0), "searches at a time")
	f.IntVar(&s.trials, "trials", 100, "trials of a search")
	f.StringVar(&s.save, "save", "", "file to write all regrets to")
	at := f.String("at", "", "numbers of trials, with commas: tables of what searches had reached after so many of their trials, before those of the end")
	load := f.String("load", "", "files of regrets to add to the tables, with commas")
	parallel := f.String("parallel", "1,8", "numbers of trials that run at once, with commas")
	functions := f.String("functions", "tuning", "tuning, judging, branches, or names of functions, with commas")
	only := f.String("only", "", "names of suggesters, with commas, or none; default all")
	f.Func("program", "a further suggester, as NAME=COMMAND: a program that speaks the protocol of suggest.External", func(text string) error {
		name, command, ok := strings.Cut(text, "=")
		if !ok || name == "" || len(strings.Fields(command)) == 0 {
			return fmt.Errorf("want NAME=COMMAND")
		}
		s.contestants = append(s.contestants, contestant{name, func() tune.Suggester { return &suggest.External{Command: strings.Fields(command)} }})
		return nil
	})
	if err := f.Parse(args); err != nil {
		return s, err
	}
	var err error
	if s.parallel, err = numbers(*parallel); err != nil {
		return s, err
	}
	if *at != "" {
		if s.at, err = numbers(*at); err != nil {
			return s, err
		}
	}
	s.at = append(slices.DeleteFunc(s.at, func(n int) bool { return n >= s.trials }), s.trials)
	if s.firstSeed < 0 {
		return s, fmt.Errorf("tune: the first seed is %d: want 0 or more", s.firstSeed)
	}
	if s.seeds < 1 || s.workers < 1 || s.trials < 1 {
		return s, fmt.Errorf("tune: %d seeds, %d workers, %d trials: want at least 1", s.seeds, s.workers, s.trials)
	}
	if *load != "" {
		s.load = strings.Split(*load, ",")
	}
	if s.problems, err = problems(*functions); err != nil {
		return s, err
	}
	switch *only {
	case "":
		s.contestants = append(s.contestants, contestants...)
	case "none":
	default:
		some, err := byName("suggester", *only, contestants, contestantName)
		if err != nil {
			return s, err
		}
		s.contestants = append(s.contestants, some...)
	}
	return s, nil
}

// drawnSpaces is how many spaces with branches are drawn.
const drawnSpaces = 30

// problems are a set of functions by its name, or functions by theirs.
func problems(names string) ([]suggesttest.Problem, error) {
	switch names {
	case "tuning":
		return suggesttest.Tuning(), nil
	case "judging":
		return suggesttest.Judging(), nil
	case "branches":
		var drawn []suggesttest.Problem
		for seed := range uint64(drawnSpaces) {
			drawn = append(drawn, suggesttest.DrawnBranches(seed))
		}
		return drawn, nil
	}
	all := append(suggesttest.Tuning(), suggesttest.Judging()...)
	var out []suggesttest.Problem
	for _, name := range strings.Split(names, ",") {
		i := slices.IndexFunc(all, func(p suggesttest.Problem) bool { return p.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("tune: function %q: want tuning, judging, branches, or some of %s", name, functionNames(all))
		}
		out = append(out, all[i])
	}
	return out, nil
}

func functionNames(all []suggesttest.Problem) string {
	var names []string
	for _, p := range all {
		names = append(names, p.Name)
	}
	return strings.Join(names, ",")
}

// numbers reads whole numbers above 0, with commas.
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

// run looks at the flags that choose the kind of search before any are parsed: each kind has flags
// of its own.
func run(args []string, w io.Writer) error {
	has := func(flag string) bool {
		return slices.ContainsFunc(args, func(a string) bool {
			name, _, _ := strings.Cut(strings.TrimLeft(a, "-"), "=")
			return a != name && name == flag
		})
	}
	switch {
	case has("curves"):
		return runCurves(args, w)
	case has("fidelities"):
		return runFidelities(args, w)
	}
	if slices.ContainsFunc(args, func(a string) bool { return strings.TrimLeft(a, "-") == "costs" && a != "costs" }) {
		return runCosts(args, w)
	}
	s, err := parse(args, w)
	if err != nil {
		return err
	}
	all, err := loadRegrets(s.load, s.at)
	if err != nil {
		return err
	}
	made, err := s.measureAll()
	if err != nil {
		return err
	}
	if s.save != "" {
		if err := saveRegrets(s.save, made); err != nil {
			return err
		}
	}
	note := fmt.Sprintf("%s; %s", machine(), strings.Join(append([]string{"bench/tune"}, args...), " "))
	for _, trials := range s.at {
		then := slices.DeleteFunc(append(slices.Clone(made), all...), func(r regret) bool { return r.Trials != trials })
		if err := writeTables(w, s, trials, then, note); err != nil {
			return err
		}
		if trials != s.trials {
			fmt.Fprintln(w)
		}
	}
	return nil
}

// measureAll makes the searches of all cells. Random search is always among them: the others are
// compared with it. It runs alone, since more at once have the same draws.
func (s *settings) measureAll() (made []regret, err error) {
	all := s.contestants
	if !slices.ContainsFunc(all, func(c contestant) bool { return c.name == "random" }) {
		all = append([]contestant{contestants[0]}, all...)
	}
	for _, c := range all {
		parallels := s.parallel
		if c.name == "random" {
			parallels = []int{1}
		}
		for _, parallel := range parallels {
			for _, p := range s.problems {
				r, err := measure(p, c, parallel, *s)
				if err != nil {
					return nil, err
				}
				made = append(made, r...)
			}
		}
	}
	return made, nil
}

// measure makes the searches of one cell, several at a time.
func measure(p suggesttest.Problem, c contestant, parallel int, s settings) ([]regret, error) {
	regrets, errs := make([][]regret, s.seeds), make([]error, s.seeds)
	slots := make(chan struct{}, s.workers)
	var all sync.WaitGroup
	for i := range s.seeds {
		seed := s.firstSeed + i
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			start := time.Now()
			suggester := c.make()
			if closer, ok := suggester.(io.Closer); ok {
				defer closer.Close()
			}
			var v *tunetest.View
			_, v, errs[i] = p.Run(suggester, s.trials, parallel, uint64(seed))
			took := time.Since(start).Seconds()
			if errs[i] != nil {
				return
			}
			for _, n := range s.at {
				part := took * float64(n) / float64(s.trials)
				regrets[i] = append(regrets[i], regret{c.name, p.Name, n, parallel, seed, p.RegretAfter(v, n), part})
			}
		})
	}
	all.Wait()
	return slices.Concat(regrets...), errors.Join(errs...)
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

package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/curvetest"
	"github.com/paragon-train/paragon/tune/schedule"
)

// A stoppingRule is a scheduler by name.
type stoppingRule struct {
	name string
	make func(p curvetest.Problem) tune.Scheduler
}

// stoppingRules are those of --rules.
var stoppingRules = []stoppingRule{
	{"none", func(curvetest.Problem) tune.Scheduler { return tune.FIFO{} }},
	{"hyperband", func(p curvetest.Problem) tune.Scheduler { return &schedule.Hyperband{MaxStep: p.Last} }},
	{"predict", func(p curvetest.Problem) tune.Scheduler { return &schedule.Predict{MaxStep: p.Last} }},
	{"asha", func(p curvetest.Problem) tune.Scheduler { return &schedule.ASHA{MaxStep: p.Last} }},
	{"promotion", func(p curvetest.Problem) tune.Scheduler {
		return &schedule.ASHA{MaxStep: p.Last, Rule: schedule.Promotion}
	}},
	{"median", func(curvetest.Problem) tune.Scheduler { return &schedule.MedianStopping{} }},
}

// curveSettings are what the command line asks for with --curves.
type curveSettings struct {
	problems   []curvetest.Problem
	rules      []stoppingRule
	suggesters []contestant
	programs   []peerProgram

	// workers are the numbers of workers, and parts those of the budget at which the regret is
	// taken.
	workers []int
	parts   []float64

	// Each cell of the tables has so many seeds, from the first on.
	seeds, first int

	// searches run at a time.
	searches int

	// trainings is the budget in full trainings.
	trainings float64

	// fidelity lets trials train anew for more and more of their steps.
	fidelity bool

	// save is the file for the results, and load has files of further ones.
	save string
	load []string
}

// A curveResult is what one search on learning curves came to.
type curveResult struct {
	Suggester string    `json:"suggester"`
	Rule      string    `json:"rule"`
	Workers   int       `json:"workers"`
	Problem   string    `json:"problem"`
	Kind      string    `json:"kind"`
	Seed      int       `json:"seed"`
	Parts     []float64 `json:"parts"`
	Regret    []float64 `json:"regret"`
	Trials    int       `json:"trials"`
	Full      int       `json:"full"`
	// Milliseconds of a proposal and of the decision about a report.
	Proposal    float64 `json:"proposal_ms"`
	ProposalP99 float64 `json:"proposal_p99_ms"`
	Verdict     float64 `json:"verdict_ms"`
	VerdictP99  float64 `json:"verdict_p99_ms"`
}

// byName are those of all whose name is in the list, in the list's order.
func byName[T any](what, list string, all []T, name func(T) string) ([]T, error) {
	var found []T
	for _, want := range strings.Split(list, ",") {
		i := slices.IndexFunc(all, func(x T) bool { return strings.EqualFold(name(x), want) })
		if i < 0 {
			var names []string
			for _, x := range all {
				names = append(names, name(x))
			}
			return nil, fmt.Errorf("tune: %s %q: want some of %s", what, want, strings.Join(names, ","))
		}
		found = append(found, all[i])
	}
	return found, nil
}

// curveFlags are the flags whose texts have lists.
type curveFlags struct {
	problems, kinds, rules, suggesters, workers, at, load, programRules *string
}

// addCurveFlags declares the flags. Those without lists go into the settings.
func addCurveFlags(f *flag.FlagSet, s *curveSettings) curveFlags {
	lists := curveFlags{
		problems:     f.String("curves", "tuning", "problems: tuning, judging, or names of problems, with commas"),
		kinds:        f.String("kinds", "", "kinds of problems, with commas; default all"),
		rules:        f.String("rules", "none,hyperband,asha,median", "rules that stop trials, with commas"),
		suggesters:   f.String("suggesters", "Auto,TPE,random", "suggesters, with commas, or none"),
		workers:      f.String("workers", "8", "numbers of workers, with commas"),
		at:           f.String("at", "10,25,50,100", "percentages of the budget at which the regret is taken, with commas"),
		load:         f.String("load", "", "files of results to add to the tables, with commas"),
		programRules: f.String("program-rules", "none", "rules of the programs, with commas; their names are the program's"),
	}
	f.IntVar(&s.seeds, "seeds", 20, "searches of each cell")
	f.IntVar(&s.first, "first-seed", 0, "seed of the first of them")
	f.IntVar(&s.searches, "searches", runtime.GOMAXPROCS(0), "searches at a time")
	f.Float64Var(&s.trainings, "trainings", 100, "the budget in full trainings")
	f.BoolVar(&s.fidelity, "fidelity", false, "trials train anew for a ninth, a third and all of their steps, as the rule decides; with rule none at once for all")
	f.StringVar(&s.save, "save", "", "file to write all results to")
	f.Func("program", "a further suggester with rules of its own, as NAME=COMMAND: a program that speaks the protocol of peer_curves.py", func(text string) error {
		name, command, ok := strings.Cut(text, "=")
		if !ok || name == "" || len(strings.Fields(command)) == 0 {
			return fmt.Errorf("want NAME=COMMAND")
		}
		s.programs = append(s.programs, peerProgram{name: name, command: strings.Fields(command)})
		return nil
	})
	return lists
}

// parseCurves reads the flags of searches on learning curves.
func parseCurves(args []string, w io.Writer) (s curveSettings, err error) {
	f := flag.NewFlagSet("tune", flag.ContinueOnError)
	f.SetOutput(w)
	lists := addCurveFlags(f, &s)
	if err := f.Parse(args); err != nil {
		return s, err
	}
	if s.seeds < 1 || s.searches < 1 || s.trainings <= 0 || s.first < 0 {
		return s, fmt.Errorf("tune: %d seeds from %d, %d searches, %v trainings: want at least 1, 0, 1 and more than 0", s.seeds, s.first, s.searches, s.trainings)
	}
	if err := s.chooseProblems(*lists.problems, *lists.kinds); err != nil {
		return s, err
	}
	if s.rules, err = byName("rule", *lists.rules, stoppingRules, func(r stoppingRule) string { return r.name }); err != nil {
		return s, err
	}
	if *lists.suggesters != "none" {
		if s.suggesters, err = byName("suggester", *lists.suggesters, contestants, contestantName); err != nil {
			return s, err
		}
	}
	if s.workers, err = numbers(*lists.workers); err != nil {
		return s, err
	}
	percents, err := numbers(*lists.at)
	if err != nil {
		return s, err
	}
	for _, p := range percents {
		s.parts = append(s.parts, float64(p)/100)
	}
	for i := range s.programs {
		s.programs[i].rules = strings.Split(*lists.programRules, ",")
	}
	if *lists.load != "" {
		s.load = strings.Split(*lists.load, ",")
	}
	return s, nil
}

// chooseProblems takes a set by its name, or problems by theirs, of some kinds or of all.
func (s *curveSettings) chooseProblems(names, kinds string) (err error) {
	switch names {
	case "tuning":
		s.problems = curvetest.Tuning()
	case "judging":
		s.problems = curvetest.Judging()
	default:
		s.problems, err = byName("problem", names, append(curvetest.Tuning(), curvetest.Judging()...), func(p curvetest.Problem) string { return p.Name })
	}
	if err != nil {
		return err
	}
	if kinds != "" {
		some, err := byName("kind", kinds, curvetest.Kinds(), func(k string) string { return k })
		if err != nil {
			return err
		}
		s.problems = slices.DeleteFunc(s.problems, func(p curvetest.Problem) bool { return !slices.Contains(some, p.Kind) })
	}
	if s.fidelity {
		// Levels are steps. In the kind lengths the same step is another part of each trial.
		s.problems = slices.DeleteFunc(s.problems, func(p curvetest.Problem) bool { return p.Kind == "lengths" })
	}
	return nil
}

// levels is the fidelity of a search.
func (s *curveSettings) levels(p curvetest.Problem, rule stoppingRule) *tune.Fidelity {
	if !s.fidelity {
		return nil
	}
	f := &tune.Fidelity{Parameter: "steps of the run", Low: math.Round(float64(p.Last) / 9), High: float64(p.Last)}
	if rule.name == "none" {
		f.Low = f.High
	}
	return f
}

// A curveJob is one search to run.
type curveJob struct {
	result  curveResult
	problem curvetest.Problem

	// start begins the search; run closes it.
	start func() (curvetest.Search, error)
}

// jobs are all searches, seeds outermost, so that the first ones are a whole table.
func (s *curveSettings) jobs() (all []curveJob) {
	for seed := s.first; seed < s.first+s.seeds; seed++ {
		for _, p := range s.problems {
			for _, workers := range s.workers {
				all = append(all, s.searchesOf(p, workers, seed)...)
			}
		}
	}
	return all
}

// searchesOf are the searches of one problem: of every suggester with every rule, and of the
// programs with rules of their own.
func (s *curveSettings) searchesOf(p curvetest.Problem, workers, seed int) (list []curveJob) {
	add := func(suggester, rule string, start func() (curvetest.Search, error)) {
		r := curveResult{Suggester: suggester, Rule: rule, Workers: workers, Problem: p.Name, Kind: p.Kind, Seed: seed, Parts: s.parts}
		list = append(list, curveJob{r, p, start})
	}
	for _, c := range s.suggesters {
		for _, rule := range s.rules {
			add(c.name, rule.name, func() (curvetest.Search, error) {
				return curvetest.NewStudySearch(p, curvetest.StudyConfig{Suggester: c.make(), Scheduler: rule.make(p), Workers: workers, Seed: uint64(seed), Fidelity: s.levels(p, rule)})
			})
		}
	}
	for _, program := range s.programs {
		for _, rule := range program.rules {
			add(program.name, rule, func() (curvetest.Search, error) { return program.start(p, rule, workers, uint64(seed)) })
		}
	}
	return list
}

// run makes the search and notes what it came to.
func (j *curveJob) run(trainings float64) (err error) {
	r := &j.result
	search, err := j.start()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, search.Close()) }()
	o, err := curvetest.Simulate(j.problem, search, curvetest.Config{Workers: r.Workers, Seed: uint64(r.Seed), Trainings: trainings, Parts: r.Parts})
	r.Regret, r.Trials, r.Full = o.Regret, o.Trials, o.Full
	if t, ok := search.(interface {
		Times() (proposals, verdicts []time.Duration)
	}); ok {
		proposals, verdicts := t.Times()
		r.Proposal, r.ProposalP99 = meanAndP99(proposals)
		r.Verdict, r.VerdictP99 = meanAndP99(verdicts)
	}
	return err
}

// meanAndP99 are the mean and the 99th of a hundred of times, in milliseconds.
func meanAndP99(times []time.Duration) (mean, p99 float64) {
	if len(times) == 0 {
		return 0, 0
	}
	sorted := slices.Sorted(slices.Values(times))
	var sum time.Duration
	for _, t := range sorted {
		sum += t
	}
	ms := func(d time.Duration) float64 { return d.Seconds() * 1e3 }
	return ms(sum) / float64(len(sorted)), ms(sorted[(len(sorted)-1)*99/100])
}

// runCurves makes all searches and writes the tables. A search that fails does not end the others:
// what they came to is saved, and then all errors are told.
func runCurves(args []string, w io.Writer) error {
	s, err := parseCurves(args, w)
	if err != nil {
		return err
	}
	all, err := loadCurves(s.load)
	if err != nil {
		return err
	}
	jobs := s.jobs()
	errs := make([]error, len(jobs))
	slots := make(chan struct{}, s.searches)
	saved, err := newCurveFile(s.save)
	if err != nil {
		return err
	}
	defer saved.close()
	var done sync.WaitGroup
	for i := range jobs {
		slots <- struct{}{}
		done.Go(func() {
			defer func() { <-slots }()
			j := &jobs[i]
			err := j.run(s.trainings)
			if err == nil {
				err = saved.add(j.result)
			}
			if err != nil {
				errs[i] = fmt.Errorf("tune: %s with %s on %s, %d workers, seed %d: %w", j.result.Suggester, j.result.Rule, j.result.Problem, j.result.Workers, j.result.Seed, err)
			}
		})
	}
	done.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	var made []curveResult
	for _, j := range jobs {
		made = append(made, j.result)
	}
	if s.save != "" {
		if err := saveCurves(s.save, made); err != nil {
			return err
		}
	}
	note := fmt.Sprintf("%s; %s", machine(), strings.Join(append([]string{"bench/tune"}, args...), " "))
	return writeCurveTables(w, append(made, all...), s.parts, note)
}

// A curveFile is where results go as soon as they are there, in the order in which searches end, so
// that a run that is cut off leaves what it has. saveCurves then writes them in their own order.
type curveFile struct {
	mu sync.Mutex

	// file is nil if results are not saved.
	file *os.File
}

// newCurveFile opens the file for results; "": they are not saved.
func newCurveFile(name string) (*curveFile, error) {
	if name == "" {
		return &curveFile{}, nil
	}
	f, err := os.Create(name)
	return &curveFile{file: f}, err
}

// add writes a result. Searches end in several goroutines, so it takes the lock.
func (c *curveFile) add(r curveResult) error {
	if c.file == nil {
		return nil
	}
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err = c.file.Write(append(b, '\n'))
	return err
}

func (c *curveFile) close() {
	if c.file != nil {
		c.file.Close()
	}
}

// saveCurves writes results, one a line.
func saveCurves(file string, all []curveResult) error {
	var text strings.Builder
	for _, r := range all {
		b, err := json.Marshal(r)
		if err != nil {
			return fmt.Errorf("tune: results: %w", err)
		}
		text.Write(append(b, '\n'))
	}
	return os.WriteFile(file, []byte(text.String()), 0o666)
}

// loadCurves reads the results of earlier runs.
func loadCurves(files []string) ([]curveResult, error) {
	var all []curveResult
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(b)) {
			var r curveResult
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				return nil, fmt.Errorf("tune: %s: %w", file, err)
			}
			all = append(all, r)
		}
	}
	return all, nil
}

// A curveRow is a rule with a suggester and a number of workers.
type curveRow struct {
	workers         int
	rule, suggester string
}

// curveRows are the rows in the order of tables, with their results.
func curveRows(all []curveResult) ([]curveRow, map[curveRow][]curveResult) {
	of := make(map[curveRow][]curveResult)
	var rows []curveRow
	for _, r := range all {
		row := curveRow{r.Workers, r.Rule, r.Suggester}
		if of[row] == nil {
			rows = append(rows, row)
		}
		of[row] = append(of[row], r)
	}
	slices.SortStableFunc(rows, func(a, b curveRow) int { return cmp.Compare(a.workers, b.workers) })
	return rows, of
}

package study

import (
	"slices"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/schedule"
	"github.com/paragon-train/paragon/tune/suggest"
)

// A rule is a name in the file with what it makes; nil is for names without options.
type rule struct {
	name string
	make func() any
}

// suggesters are the names that a file has for suggesters.
var suggesters = []rule{
	{"auto", func() any { return new(suggest.Auto) }},
	{"random", func() any { return nil }},
	{"sobol", func() any { return new(suggest.Sobol) }},
	{"tpe", func() any { return new(suggest.TPE) }},
	{"gp", func() any { return new(suggest.GP) }},
	{"cmaes", func() any { return new(suggest.CMAES) }},
	{"nsga2", func() any { return new(suggest.NSGA2) }},
	{"motpe", func() any { return new(suggest.MOTPE) }},
	{"external", func() any { return new(external) }},
	{"limit", func() any { return new(suggest.Limit) }},
	{"repeat", func() any { return new(suggest.Repeat) }},
}

// schedulers are the names that a file has for schedulers.
var schedulers = []rule{
	{"fifo", func() any { return nil }},
	{"asha", func() any { return new(schedule.ASHA) }},
	{"promotion", func() any { return &schedule.ASHA{Rule: schedule.Promotion} }},
	{"predict", func() any { return new(schedule.Predict) }},
	{"hyperband", func() any { return new(schedule.Hyperband) }},
	{"optuna_hyperband", func() any { return new(schedule.OptunaHyperband) }},
	{"median", func() any { return new(schedule.MedianStopping) }},
	{"percentile", func() any { return new(schedule.Percentile) }},
	{"patience", func() any { return new(schedule.Patience) }},
	{"threshold", func() any { return new(threshold) }},
	{"pbt", func() any { return new(schedule.PBT) }},
	{"goodput", func() any { return new(schedule.Goodput) }},
	{"any", func() any { return new(schedule.Any) }},
	{"all", func() any { return new(schedule.All) }},
}

// pruners are the names that a file has for pruners.
var pruners = []rule{
	{"max_step", func() any { return new(schedule.MaxStep) }},
	{"reached", func() any { return new(reached) }},
	{"trial_plateau", func() any { return new(schedule.TrialPlateau) }},
	{"study_plateau", func() any { return new(schedule.StudyPlateau) }},
	{"trial_time", func() any { return new(span) }},
	{"study_time", func() any { return new(span) }},
	{"number", func() any { return new(schedule.Number) }},
}

// Rules are values of the types of all suggesters, schedulers and pruners that a file may have, for
// tune.Replay.
func Rules() []any {
	all := []any{&suggest.External{}, &schedule.Threshold{}, schedule.Any{}, schedule.All{}, schedule.Reached{}, schedule.MaxStep(0),
		schedule.TrialPlateau{}, &schedule.StudyPlateau{}, schedule.TrialTime(0), schedule.StudyTime(0), schedule.Number(0)}
	for _, r := range slices.Concat(suggesters, schedulers) {
		switch made := r.make().(type) {
		case tune.Suggester, tune.Scheduler:
			all = append(all, made)
		}
	}
	return all
}

// choose reads NAME, or NAME: OPTIONS, and returns what the name makes, filled.
func (r *reader) choose(n *yaml.Node, field string, rules []rule) (name string, made any) {
	names := make([]string, len(rules))
	for i, u := range rules {
		names[i] = u.name
	}
	e := entry{n.Value, n, nil}
	if n.Kind != yaml.ScalarNode {
		all := r.entries(n, field)
		if all == nil {
			return "", nil
		}
		if len(all) != 1 {
			r.bad(n, field, "got %d names, want one, with its options below it: {%s: {...}}", len(all), all[0].key)
			return "", nil
		}
		e = all[0]
	}
	for _, u := range rules {
		if u.name != e.key {
			continue
		}
		made := u.make()
		if e.value != nil {
			if made == nil {
				r.bad(e.at, join(field, e.key), "it has no options")
				return e.key, nil
			}
			// What was filled in part is not used: a rule with a wrong option must not
			// run with its default.
			before := len(r.errs)
			r.value(e.value, join(field, e.key), settable(made))
			if len(r.errs) > before {
				return e.key, nil
			}
		}
		// In a search over fidelities the steps are those of the levels, which are known
		// only when the whole file was read.
		if v, ok := made.(interface{ Validate() error }); ok && !(r.levels && later(made)) {
			if err := v.Validate(); err != nil {
				r.bad(e.at, join(field, e.key), "%v", err)
				return e.key, nil
			}
		}
		return e.key, made
	}
	r.bad(e.at, field, "there is no %q%s; there are %s", e.key, meant(e.key, names), list(names))
	return "", nil
}

// suggester reads a suggester; nil: something is wrong with it.
func (r *reader) suggester(n *yaml.Node, field string) tune.Suggester {
	name, made := r.choose(n, field, suggesters)
	if name == "random" {
		return tune.Random{}
	}
	if e, ok := made.(*external); ok {
		s := &suggest.External{Command: e.Command.words(), Deadline: e.Deadline}
		if len(s.Command) == 0 {
			r.bad(n, field, "external needs the program: {external: {command: ./suggest.py}}")
		}
		return s
	}
	s, _ := made.(tune.Suggester)
	return s
}

// external is suggest.External with its command as a text or a list.
type external struct {
	Command  command
	Deadline time.Duration
}

// scheduler reads a scheduler; nil: it is fifo, or something is wrong with it.
func (r *reader) scheduler(n *yaml.Node, field string) tune.Scheduler {
	switch _, made := r.choose(n, field, schedulers); s := made.(type) {
	case *schedule.Any:
		return *s
	case *schedule.All:
		return *s
	case *threshold:
		t := &schedule.Threshold{Warmup: s.Warmup, Interval: s.Interval}
		if s.Lower != nil {
			t.Lower, t.HasLower = *s.Lower, true
		}
		if s.Upper != nil {
			t.Upper, t.HasUpper = *s.Upper, true
		}
		return t
	case tune.Scheduler:
		return s
	}
	return nil
}

// threshold is schedule.Threshold whose bounds are there if the file has them.
type threshold struct {
	Lower, Upper     *float64
	Warmup, Interval int
}

// A reached is schedule.Reached, also as the value alone.
type reached schedule.Reached

// read implements selfReader.
func (s *reached) read(r *reader, n *yaml.Node, field string) {
	if n.Kind == yaml.ScalarNode {
		r.scalar(n, field, settable(&s.Value))
		return
	}
	r.fill(n, field, settable((*schedule.Reached)(s)))
}

// A span is a time.
type span time.Duration

// read implements selfReader.
func (s *span) read(r *reader, n *yaml.Node, field string) { *s = span(r.duration(n, field)) }

// A pruner is one of the file's list.
type pruner struct{ tune.Pruner }

// read implements selfReader.
func (s *pruner) read(r *reader, n *yaml.Node, field string) {
	name, made := r.choose(n, field, pruners)
	switch x := made.(type) {
	case *schedule.MaxStep:
		s.Pruner = *x
	case *reached:
		s.Pruner = schedule.Reached(*x)
	case *schedule.TrialPlateau:
		s.Pruner = *x
	case *schedule.StudyPlateau:
		s.Pruner = x
	case *schedule.Number:
		s.Pruner = *x
	case *span:
		if s.Pruner = schedule.StudyTime(*x); name == "trial_time" {
			s.Pruner = schedule.TrialTime(*x)
		}
	}
	if n.Kind == yaml.ScalarNode && name != "" && name != "trial_plateau" && name != "study_plateau" {
		r.bad(n, field, "%s needs its value: {%s: ...}", name, name)
	}
}

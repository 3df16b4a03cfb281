package study

import (
	"path/filepath"

	"go.yaml.in/yaml/v3"

	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/schedule"
	"github.com/paragon-train/paragon/tune/suggest"
)

// A builder makes a search from the fields of a file. What is wrong with them goes to the reader;
// the search is of use only if nothing is.
type builder struct {
	reader *reader
	top    *yaml.Node
	file   *file
}

// bad says what is wrong with a field.
func (b *builder) bad(field, format string, args ...any) {
	b.reader.bad(at(b.top, field), field, format, args...)
}

// faulty says whether a mistake in a field was found before.
func (b *builder) faulty(field string) bool { return b.reader.faulty[field] }

// checkSpace checks the space, and that the command names its parameters. What the command or a
// point names may be what is wrong in a faulty space.
func (b *builder) checkSpace(flags bool) {
	f := b.file
	if b.faulty("space") {
		return
	}
	if len(f.Search.Space.Space) == 0 {
		b.bad("space", "it is empty: want parameters, such as lr: {real: [0.001, 0.1], log: true}")
		return
	}
	if err := f.Search.Space.Validate(); err != nil {
		b.bad("space", "%v", err)
		return
	}
	if b.faulty("command") {
		return
	}
	if err := f.Trials.Command.check(f.params(), flags); err != nil {
		b.bad("command", "%v", err)
	}
}

// name gives the study a name and a folder.
func (b *builder) name() {
	f := b.file
	if f.Name == "" {
		f.Name = "study"
	}
	if f.Places.Dir == "" {
		f.Places.Dir = filepath.Join("runs", f.Name)
	}
}

// config has the fields that need no other one.
func (b *builder) config(mode tune.Mode, scope tune.Scope) tune.Config {
	f := b.file
	goals, search, limits, res := &f.Goals, &f.Search, &f.Limits, f.Limits.Resources
	c := tune.Config{
		Name: f.Name, Dir: f.Places.Dir,
		Metric: goals.Metric, Mode: mode, Scope: scope, Objectives: goals.Objectives,
		Space: search.Space.Space, Fidelity: search.Fidelity.Fidelity, Samples: search.Samples, DefaultFirst: search.DefaultFirst, Seed: search.Seed,
		Suggester: search.Suggester, Scheduler: search.Scheduler, KeepDiverged: search.KeepDiverged,
		Parallel: limits.Parallel, Timeout: limits.Timeout, ReportTimeout: limits.ReportTimeout, Grace: limits.Grace, Retries: tune.Retries(limits.Retries),
		MaxFailed: limits.MaxFailed, FirstFailures: limits.FirstFailures, CheckpointBytes: limits.CheckpointBytes,
		Resources: tune.Resources{Hosts: res.Hosts, Slots: res.Slots, CPUsPerSlot: res.CPUs, GPUs: res.GPUs, Servers: res.Servers, StartTimeout: res.StartTimeout},
	}
	for _, x := range goals.Constraints {
		c.Constraints = append(c.Constraints, tune.Constraint(x))
	}
	for _, p := range search.Points {
		c.Points = append(c.Points, tune.Point(p))
	}
	for _, x := range search.Pruners {
		c.Pruners = append(c.Pruners, x.Pruner)
	}
	return c
}

// mode is which values of the metric are good.
func (b *builder) mode() tune.Mode {
	mode, err := tune.ParseMode(b.file.Goals.Mode)
	if err != nil {
		b.bad("mode", "got %q, want max or min", b.file.Goals.Mode)
	}
	return mode
}

// scope is which of its reports a trial is ranked by.
func (b *builder) scope() tune.Scope {
	switch b.file.Goals.Judge {
	case "", "best":
	case "last":
		return tune.LastReport
	default:
		b.bad("judge", "got %q, want best (a trial's best report counts) or last", b.file.Goals.Judge)
	}
	return tune.BestReport
}

// chooseRules chooses the rules that the file does not name.
func (b *builder) chooseRules(c *tune.Config) {
	if !b.faulty("scheduler") {
		c.Scheduler = b.file.Search.Fidelity.rule(b.reader, b.file.Search.Scheduler, b.top)
	}
	if c.Fidelity != nil && len(c.Objectives) > 0 {
		b.bad("fidelity", "the rule that decides who goes on to the next level judges by one metric, and the search has objectives: leave one of them out")
	}
	if c.Suggester == nil {
		c.Suggester = new(suggest.Auto)
	}
	if key, _ := entryOf(b.top, "scheduler"); key == nil && c.Scheduler == nil && len(c.Objectives) == 0 {
		c.DefaultScheduler = new(schedule.Predict)
	}
}

// checkNumbers checks numbers whose zero a file must not name.
func (b *builder) checkNumbers(c *tune.Config) {
	f := b.file
	if f.Limits.Parallel < 0 {
		b.bad("parallel", "got %d, want 1 or more; without it there are as many at once as fit", f.Limits.Parallel)
		c.Parallel = 0
	}
	if _, n := entryOf(b.top, "samples"); n != nil && (f.Search.Samples == 0 || f.Search.Samples < -1) && !b.faulty("samples") {
		b.reader.bad(n, "samples", "got %d, want how many times the space is sampled: 1 or more, or -1 for no limit", f.Search.Samples)
	}
}

// validate checks the config as Run does. Fields that are faulty are replaced first, so that the
// others are checked, too.
func (b *builder) validate(c tune.Config) {
	if b.faulty("space") {
		c.Space, c.Points = tune.Space{tune.Real("any", 0, 1)}, nil
	}
	// Constraints need a metric.
	if b.faulty("metric") || b.faulty("objectives") {
		c.Metric, c.Mode, c.Objectives = "any", tune.Max, nil
	}
	if err := c.Validate(); err != nil {
		b.reader.invalid(b.top, err)
	}
}

// checkHosts checks that the fields about hosts go together.
func (b *builder) checkHosts() {
	if b.file.Places.Hosts != "" {
		if b.file.Places.Address == "" {
			b.reader.bad(at(b.top, "hosts"), "address", "hosts needs it: the address at which the hosts reach this machine")
		}
		return
	}
	for _, name := range []string{"host_timeout", "address", "folder", "upload", "ssh"} {
		if n := at(b.top, name); n != b.top {
			b.reader.bad(n, name, "it is used with hosts only: set hosts: FILE, too")
		}
	}
}

// jobs runs the trials. One process without servers needs no job, unless it is to have flags of
// launch.
func (b *builder) jobs(c *tune.Config) *tune.Jobs {
	f, places, res := b.file, &b.file.Places, b.file.Limits.Resources
	_, divides := f.Search.Scheduler.(tune.Allocator)
	alone := max(res.Hosts, 1)*max(res.Slots, 1) == 1 && res.Servers == 0 && (places.Hosts == "" || len(places.LaunchFlags) == 0) && !divides
	if divides && (res.Hosts > 0 || res.Slots > 0) {
		b.bad("resources", "hosts and slots are the scheduler's to decide: leave them out, and set min_replicas and max_replicas of goodput")
	}
	checkpoints := f.Trials.Command.hasCheckpoint(c.Space)
	if checkpoints && c.Fidelity != nil {
		b.bad("command", "{checkpoint} has no use with fidelity: a trial begins anew at each level")
	}
	if checkpoints && divides {
		b.bad("command", "{checkpoint} is for a process that runs alone or in a job of a fixed size: goodput keeps the state of its jobs itself")
	}
	return &tune.Jobs{
		Resources: c.Resources, HostFile: places.Hosts, HostTimeout: places.HostTimeout, Address: places.Address, Folder: places.Folder, SSH: places.SSH, LaunchFlags: places.LaunchFlags,
		NoServers: alone, MaxCopied: f.Limits.MaxCopied,
		Command: f.Trials.Command.words(), Checkpoints: checkpoints,
	}
}

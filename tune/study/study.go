package study

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/schedule"
	"github.com/paragon-train/paragon/tune/suggest"
)

// file is what a file may have.
type file struct {
	Name   string
	Metric string
	Mode   string
	// Objectives are several metrics, in place of Metric and Mode.
	Objectives  objectives
	Constraints []constraint
	// Judge says whether a trial's best report counts, or its last.
	Judge string

	Command command
	// Flags is whether parameters become flags of a command that names none.
	Flags flagsSetting

	Space        space
	Fidelity     fidelity
	Samples      int
	Points       []point
	DefaultFirst bool
	Seed         uint64
	Suggester    tune.Suggester
	Scheduler    tune.Scheduler
	Pruners      []pruner
	KeepDiverged bool

	Parallel        int
	Resources       resources
	Timeout         time.Duration
	Deadline        Deadline
	ReportTimeout   time.Duration
	Grace           time.Duration
	Retries         retries
	MaxFailed       int
	FirstFailures   int
	CheckpointBytes int64
	MaxCopied       int64

	Dir         string
	Hosts       string
	HostTimeout time.Duration
	Address     string
	Folder      string
	Upload      []string
	SSH         string
	LaunchFlags []string
}

type resources struct {
	Hosts, Slots int
	CPUs         int // of a slot
	GPUs         int // of a slot
	Servers      int
	StartTimeout time.Duration
}

type retries struct{ UserCode, OutOfMemory, NodeLost, Silent int }

// A flagsSetting distinguishes false from a missing field.
type flagsSetting struct{ off bool }

func (f *flagsSetting) read(r *reader, n *yaml.Node, field string) {
	on := true
	r.scalar(n, field, settable(&on))
	f.off = !on
}

// A Study is the search that a file describes. Use it once: suggesters and schedulers have state.
type Study struct {
	// Config has no Runner; set it to Jobs.
	Config tune.Config
	// Jobs runs trials; the caller sets its Output, Logger and Launch.
	Jobs *tune.Jobs
	// Upload are files to be copied to all hosts.
	Upload []string
	// Text is the text of the file.
	Text []byte

	file file
}

// maxFile bounds a file.
const maxFile = 1 << 20

// Name is the file's name in the folder of a study.
const Name = "study.yaml"

// Load reads a file, or the study.yaml of a study's folder.
func Load(path string) (*Study, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		s, err := Load(filepath.Join(path, Name))
		if err == nil {
			s.Config.Dir = path
		}
		return s, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("study: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("study: %w", err)
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("study: %s has more than %d bytes", path, maxFile)
	}
	return Parse(path, text)
}

// indentedByTab finds a line that begins with a tab, which YAML does not allow.
var indentedByTab = regexp.MustCompile(`(?m)^ *\t`)

// Parse reads the text of a file; name is for errors.
func Parse(name string, text []byte) (_ *Study, err error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		if indentedByTab.Match(text) {
			err = fmt.Errorf("%w; indent lines with spaces, not tabs", err)
		}
		return nil, fmt.Errorf("study: %s: %w", name, err)
	}
	if len(doc.Content) == 0 {
		return nil, fmt.Errorf("study: %s is empty: want at least command, metric and space", name)
	}
	top := follow(doc.Content[0])
	_, levels := entryOf(top, "fidelity")
	r := &reader{file: name, faulty: map[string]bool{}, levels: levels != nil}
	s := &Study{Text: text}
	if top.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("study: %s line %d: got %s, want fields: name, command, metric, space", name, top.Line, what(top))
	}
	r.value(top, "", settable(&s.file))
	s.build(r, top)
	if err := r.err(); err != nil {
		return nil, err
	}
	return s, nil
}

// at is the node of a field, for errors.
func at(top *yaml.Node, name string) *yaml.Node {
	if key, _ := entryOf(top, name); key != nil {
		return key
	}
	return top
}

// build makes the search from the fields, and checks that they fit together, as far as they have no
// mistakes that were found before.
func (s *Study) build(r *reader, top *yaml.Node) {
	f := &s.file
	mode, err := tune.ParseMode(f.Mode)
	if err != nil {
		r.bad(at(top, "mode"), "mode", "got %q, want max or min", f.Mode)
	}
	scope := tune.BestReport
	switch f.Judge {
	case "", "best":
	case "last":
		scope = tune.LastReport
	default:
		r.bad(at(top, "judge"), "judge", "got %q, want best (a trial's best report counts) or last", f.Judge)
	}
	if r.faulty["space"] {
		// what the command or a point names may be what is wrong there
	} else if len(f.Space.Space) == 0 {
		r.bad(at(top, "space"), "space", "it is empty: want parameters, such as lr: {real: [0.001, 0.1], log: true}")
	} else if err := f.Space.Validate(); err != nil {
		r.bad(at(top, "space"), "space", "%v", err)
	} else if r.faulty["command"] {
	} else if err := f.Command.check(f.params(), s.flags()); err != nil {
		r.bad(at(top, "command"), "command", "%v", err)
	}
	if f.Name == "" {
		f.Name = "study"
	}
	if f.Dir == "" {
		f.Dir = filepath.Join("runs", f.Name)
	}
	c := &s.Config
	*c = tune.Config{
		Name: f.Name, Space: f.Space.Space, Metric: f.Metric, Mode: mode, Scope: scope, Samples: f.Samples, DefaultFirst: f.DefaultFirst, Seed: f.Seed,
		Suggester: f.Suggester, Scheduler: f.Scheduler, KeepDiverged: f.KeepDiverged, Parallel: f.Parallel, Timeout: f.Timeout,
		ReportTimeout: f.ReportTimeout, Grace: f.Grace, MaxFailed: f.MaxFailed, FirstFailures: f.FirstFailures, Dir: f.Dir, CheckpointBytes: f.CheckpointBytes,
		Retries: tune.Retries(f.Retries),
		Resources: tune.Resources{Hosts: f.Resources.Hosts, Slots: f.Resources.Slots, CPUsPerSlot: f.Resources.CPUs, GPUs: f.Resources.GPUs,
			Servers: f.Resources.Servers, StartTimeout: f.Resources.StartTimeout},
	}
	c.Objectives, c.Fidelity = f.Objectives, f.Fidelity.Fidelity
	if !r.faulty["scheduler"] {
		c.Scheduler = f.Fidelity.rule(r, f.Scheduler, top)
	}
	if c.Fidelity != nil && len(c.Objectives) > 0 {
		r.bad(at(top, "fidelity"), "fidelity", "the rule that decides who goes on to the next level judges by one metric, and the search has objectives: leave one of them out")
	}
	for _, x := range f.Constraints {
		c.Constraints = append(c.Constraints, tune.Constraint(x))
	}
	if c.Suggester == nil {
		c.Suggester = new(suggest.Auto)
	}
	if key, _ := entryOf(top, "scheduler"); key == nil && c.Scheduler == nil && len(c.Objectives) == 0 {
		c.DefaultScheduler = new(schedule.Predict)
	}
	for _, p := range f.Points {
		c.Points = append(c.Points, tune.Point(p))
	}
	for _, x := range f.Pruners {
		c.Pruners = append(c.Pruners, x.Pruner)
	}
	if f.Parallel < 0 {
		r.bad(at(top, "parallel"), "parallel", "got %d, want 1 or more; without it there are as many at once as fit", f.Parallel)
		c.Parallel = 0
	}
	if _, n := entryOf(top, "samples"); n != nil && (f.Samples == 0 || f.Samples < -1) && !r.faulty["samples"] {
		r.bad(n, "samples", "got %d, want how many times the space is sampled: 1 or more, or -1 for no limit", f.Samples)
	}
	checked := *c
	if r.faulty["space"] {
		checked.Space, checked.Points = tune.Space{tune.Real("any", 0, 1)}, nil // so that the other fields are checked too
	}
	if r.faulty["metric"] || r.faulty["objectives"] {
		checked.Metric, checked.Mode, checked.Objectives = "any", tune.Max, nil // likewise: constraints need one
	}
	if err := checked.Validate(); err != nil {
		r.invalid(top, err)
	}
	if f.Hosts == "" {
		for _, name := range []string{"host_timeout", "address", "folder", "upload", "ssh"} {
			if n := at(top, name); n != top {
				r.bad(n, name, "it is used with hosts only: set hosts: FILE, too")
			}
		}
	} else if f.Address == "" {
		r.bad(at(top, "hosts"), "address", "hosts needs it: the address at which the hosts reach this machine")
	}
	// One process without servers needs no job, unless it is to have flags of launch.
	res := f.Resources
	_, divides := f.Scheduler.(tune.Allocator)
	alone := max(res.Hosts, 1)*max(res.Slots, 1) == 1 && res.Servers == 0 && (f.Hosts == "" || len(f.LaunchFlags) == 0) && !divides
	if divides && (res.Hosts > 0 || res.Slots > 0) {
		r.bad(at(top, "resources"), "resources", "hosts and slots are the scheduler's to decide: leave them out, and set min_replicas and max_replicas of goodput")
	}
	s.Upload = f.Upload
	s.Jobs = &tune.Jobs{
		Resources: c.Resources, HostFile: f.Hosts, HostTimeout: f.HostTimeout, Address: f.Address, Folder: f.Folder, SSH: f.SSH, LaunchFlags: f.LaunchFlags, NoServers: alone, MaxCopied: f.MaxCopied,
		Command:     f.Command.words(),
		CommandFor:  func(_ []string, a tune.Attempt) ([]string, error) { return s.Command(a), nil },
		Checkpoints: f.Command.hasCheckpoint(c.Space),
	}
	if s.Jobs.Checkpoints && c.Fidelity != nil {
		r.bad(at(top, "command"), "command", "{checkpoint} has no use with fidelity: a trial begins anew at each level")
	}
	if s.Jobs.Checkpoints && divides {
		r.bad(at(top, "command"), "command", "{checkpoint} is for a process that runs alone or in a job of a fixed size: goodput keeps the state of its jobs itself")
	}
}

func (s *Study) flags() bool { return !s.file.Flags.off }

// Command is the command of an attempt, by its trial, parameters, seed and checkpoint.
func (s *Study) Command(a tune.Attempt) []string {
	return s.file.Command.fill(s.file.params(), a, s.flags())
}

// ErrNoFile is returned by Find for the study of a program, which has no file.
var ErrNoFile = errors.New("it has no " + Name)

// Find reads the file of an existing study by the path of its log or folder.
func Find(path string) (*Study, error) {
	if info, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("study: %w", err)
	} else if !info.IsDir() {
		path = filepath.Dir(path)
	}
	s, err := Load(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("study: %s: %w: a program's own search has its rules in the code of that program: recompute it there with tune.Replay", path, ErrNoFile)
	}
	return s, err
}

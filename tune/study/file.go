package study

import (
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/paragon-train/paragon/tune"
)

// file is what a file may have. Its groups have no names in the file: their fields stand beside each
// other there.
type file struct {
	Name   string
	Goals  goalFields   `file:"inline"`
	Trials trialFields  `file:"inline"`
	Search searchFields `file:"inline"`
	Limits limitFields  `file:"inline"`
	Places placeFields  `file:"inline"`
}

// goalFields are the fields that say what is good.
type goalFields struct {
	Metric string
	Mode   string
	// Objectives are several metrics, in place of Metric and Mode.
	Objectives  objectives
	Constraints []constraint
	// Judge says whether a trial's best report counts, or its last.
	Judge string
}

// trialFields are the fields that say what a trial runs.
type trialFields struct {
	Command command
	// Flags is whether parameters become flags of a command that names none.
	Flags flagsSetting
}

// searchFields are the fields that say which trials there are, and which of them go on.
type searchFields struct {
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
}

// limitFields are the fields that say how much trials and the search may take.
type limitFields struct {
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
}

// placeFields are the fields that say where the search keeps its files, and where trials run.
type placeFields struct {
	Dir         string
	Hosts       string
	HostTimeout time.Duration
	Address     string
	Folder      string
	Upload      []string
	SSH         string
	LaunchFlags []string
}

// resources are those of one trial. CPUs and GPUs are for each slot.
type resources struct {
	Hosts, Slots int
	CPUs, GPUs   int
	Servers      int
	StartTimeout time.Duration
}

// retries are how often a trial is tried again, by the class of its failure.
type retries struct{ UserCode, OutOfMemory, NodeLost, Silent int }

// A flagsSetting distinguishes false from a missing field.
type flagsSetting struct{ off bool }

// read implements selfReader.
func (f *flagsSetting) read(r *reader, n *yaml.Node, field string) {
	on := true
	r.scalar(n, field, settable(&on))
	f.off = !on
}

// at is the node of a field, for errors.
func at(top *yaml.Node, name string) *yaml.Node {
	if key, _ := entryOf(top, name); key != nil {
		return key
	}
	return top
}

// params are the parameters that a command may name: those of the space, and the fidelity.
func (f *file) params() tune.Space {
	if f.Search.Fidelity.Fidelity == nil {
		return f.Search.Space.Space
	}
	return append(f.Search.Space.Space[:len(f.Search.Space.Space):len(f.Search.Space.Space)], tune.Real(f.Search.Fidelity.Parameter, f.Search.Fidelity.Low, f.Search.Fidelity.High))
}

package tune

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/paragon-train/paragon/tune/internal/nodes"
	"github.com/paragon-train/paragon/tune/internal/remote"
	"github.com/paragon-train/paragon/tune/internal/slots"
	"github.com/paragon-train/paragon/tune/internal/trialjob"
)

// Fits implements Placer.
func (j *Jobs) Fits(r Resources) error {
	full := j.resources(r)
	if j.MaxCopied < 0 {
		return fmt.Errorf("tune: Jobs.MaxCopied is %d bytes, want 0 (64 GiB) or more", j.MaxCopied)
	}
	if j.NoServers && full.Hosts*full.Slots != 1 {
		return fmt.Errorf("tune: a trial of %d hosts with %d slots each needs servers", full.Hosts, full.Slots)
	}
	if j.Cluster != nil {
		if err := nodes.CheckTask(full); err != nil {
			return err
		}
	}
	run, err := j.runner(context.Background())
	if err != nil {
		return err
	}
	return run.Nodes.FitsEver(j.request(r))
}

// Acquire implements Placer.
func (j *Jobs) Acquire(ctx context.Context, r Resources) (Place, error) {
	run, err := j.runner(ctx)
	if err != nil {
		return nil, err
	}
	g, err := run.Nodes.Alloc.Acquire(ctx, j.request(r))
	if err != nil {
		return nil, err
	}
	return jobPlace{g}, nil
}

// jobPlace is the Place of a trial that is no elastic job.
type jobPlace struct{ grant *slots.Grant }

// Location implements Place.
func (p jobPlace) Location() string {
	var names []string
	for _, part := range p.grant.Parts {
		name := part.Node
		if len(part.GPUs) > 0 {
			name += ":gpu" + strings.Join(part.GPUs, "+")
		}
		names = append(names, name)
	}
	return strings.Join(names, ",")
}

// Release implements Place.
func (p jobPlace) Release() { p.grant.Release() }

// Run implements Runner.
func (j *Jobs) Run(ctx context.Context, a Attempt, r *Reporter) error {
	if a.elastic && j.Cluster != nil {
		return errors.New("tune: Jobs.Cluster is set, and the study's scheduler makes trials elastic: want another scheduler, or HostFile")
	}
	run, err := j.runner(ctx)
	if err != nil {
		return err
	}
	search := &jobReporter{r: r, pulse: a.pulse}
	one, err := j.attempt(a, r, search)
	if err != nil {
		return err
	}
	err = run.Run(ctx, j.settings(), one)
	if errors.Is(err, trialjob.ErrObeyed) {
		return search.asked()
	}
	return classed(err)
}

// attempt is an attempt as package trialjob takes it.
func (j *Jobs) attempt(a Attempt, r *Reporter, search *jobReporter) (one trialjob.Attempt, err error) {
	one = trialjob.Attempt{Study: cmp.Or(a.program, a.Study), Trial: a.Trial, Number: a.Number, Seed: a.Seed, Metric: a.metric, Grace: a.grace, Search: search,
		Command: func(checkpoint string) ([]string, error) { a.Checkpoint = checkpoint; return j.command(a) }}
	if a.elastic {
		one.Resources, one.Least = j.elasticResources(a.Resources), max(a.least, 1)
	} else {
		place, ok := a.Place.(jobPlace)
		if !ok {
			return one, errors.New("tune: Jobs.Run: the attempt's Place was not acquired from these Jobs")
		}
		one.Resources, one.Grant = j.resources(a.Resources), place.grant
	}
	if one.Params, err = json.Marshal(a.Params); err != nil {
		return one, fmt.Errorf("tune: trial %d: %w", a.Trial, err)
	}
	if one.Folder, err = r.Folder(); err != nil {
		return one, err
	}
	// The trial's folder is two levels below that of the study: see
	// checkpointKeeper.trialFolder.
	one.StudyFolder = filepath.Dir(filepath.Dir(one.Folder))
	if dir, step, ok := r.Restore(); ok {
		one.Restore = &remote.Restore{Dir: dir, Step: step, Donor: r.Donor()}
	}
	return one, nil
}

// command is the command of an attempt's workers: Command, or this program with its arguments.
func (j *Jobs) command(a Attempt) ([]string, error) {
	program := slices.Clone(j.Command)
	if program == nil {
		self, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("tune: find this program: %w", err)
		}
		program = append([]string{self}, os.Args[1:]...)
	}
	if j.CommandFor == nil {
		return program, nil
	}
	program, err := j.CommandFor(program, a)
	if err != nil {
		return nil, fmt.Errorf("tune: command of trial %d: %w", a.Trial, err)
	}
	return program, nil
}

// settings say how trials are started.
func (j *Jobs) settings() trialjob.Settings {
	s := trialjob.Settings{NoServers: j.NoServers, Checkpoints: j.Checkpoints, Connects: j.Command == nil, Address: j.Address, Folder: j.Folder, SSH: j.SSH, LaunchFlags: j.LaunchFlags,
		Launch: j.launchProgram, MaxCopied: cmp.Or(j.MaxCopied, defaultMaxCopied), Show: j.Output, Logger: j.logger()}
	switch {
	case j.Cluster != nil:
		s.Place = trialjob.ClusterNodes
	case j.HostFile != "":
		s.Place = trialjob.Hosts
	}
	return s
}

// classed gives an attempt's failure its class.
func classed(err error) error {
	f, ok := errors.AsType[*trialjob.Failed](err)
	if !ok {
		return err
	}
	// errors.Is would lose the text around the failure.
	if err == error(f) { //nolint:errorlint
		return Fail(Failure(f.Class), f.Err)
	}
	return Fail(Failure(f.Class), err)
}

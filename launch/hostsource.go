package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/launch/internal/command"
	"github.com/paragon-train/paragon/launch/internal/hostsource"
	"github.com/paragon-train/paragon/launch/internal/hostworker"
	"github.com/paragon-train/paragon/launch/internal/job"
	"github.com/paragon-train/paragon/launch/internal/local"
)

const (
	hostsCommandFlag = "hosts-command"
	hostsURLFlag     = "hosts-url"
)

// sourceOptions are the flags about a list of hosts that others keep.
type sourceOptions struct {
	// flag is hostsCommandFlag or hostsURLFlag; empty: there is no such list.
	flag string

	// value is that of the flag.
	value string

	interval time.Duration
	force    bool
}

func sourceFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: hostsCommandFlag, Usage: "take the hosts from `COMMAND`, which runs repeatedly and prints them as JSON lines (ssh; see docs/how-to/clouds.md)"},
		&cli.StringFlag{Name: hostsURLFlag, Usage: "take the hosts from the list at `URL` (http or https) in the same way"},
		&cli.DurationFlag{Name: "hosts-interval", Usage: "get the list every `TIME`", Value: 5 * time.Second},
		&cli.BoolFlag{Name: "hosts-force", Usage: "remove hosts even if the list names fewer than half of them, or none", DisableDefaultText: true},
	}
}

// hasSource reports whether others keep the list of hosts.
func hasSource(c *cli.Context) bool { return c.IsSet(hostsCommandFlag) || c.IsSet(hostsURLFlag) }

// readSource reads the flags of that list. The start method and what is elastic have been read.
func (o *options) readSource(c *cli.Context) error {
	if !hasSource(c) {
		for _, name := range []string{"hosts-interval", "hosts-force"} {
			if c.IsSet(name) {
				return command.Usagef("--%s is about a list of hosts; give --%s or --%s, too", name, hostsCommandFlag, hostsURLFlag)
			}
		}
		return nil
	}
	s := &o.source
	*s = sourceOptions{flag: hostsCommandFlag, interval: c.Duration("hosts-interval"), force: c.Bool("hosts-force")}
	if c.IsSet(hostsURLFlag) {
		s.flag = hostsURLFlag
	}
	s.value = c.String(s.flag)
	elastic := o.elastic.Enabled && !o.trial.elastic
	switch {
	case c.IsSet(hostsCommandFlag) && c.IsSet(hostsURLFlag):
		return command.Usagef("--%s and --%s: want one list of hosts, got two", hostsCommandFlag, hostsURLFlag)
	case o.start.name != "ssh" && o.start.name != "local":
		return command.Usagef("--%s is for hosts that launch reaches by ssh; with --launcher %s they come by themselves: leave it out", s.flag, o.start.name)
	case strings.TrimSpace(s.value) == "":
		return command.Usagef("--%s is empty", s.flag)
	case s.interval < time.Second || s.interval > maxTime:
		return command.Usagef("--hosts-interval is %s, want at least 1s, such as 5s or 1m, and at most %.0fh", s.interval, maxTime.Hours())
	case o.hosts != nil && !elastic:
		return command.Usagef("--%s adds and removes hosts while the job runs; give --%s, too, or leave out -H to take the first hosts from the list", s.flag, elasticFlag)
	case s.force && !elastic:
		return command.Usagef("--hosts-force is about hosts that leave a running job; give --%s, too", elasticFlag)
	}
	if s.flag == hostsURLFlag {
		if _, err := hostsource.NewURL(s.value); err != nil {
			return command.Usagef("--%s: %v", hostsURLFlag, err)
		}
	}
	return nil
}

// openSource begins to use the list of hosts that others keep; nil: there is none.
func (o *options) openSource(e startEnvironment) (*hostsource.Follower, error) {
	var s hostsource.Source
	switch o.source.flag {
	case hostsCommandFlag:
		s = hostsource.NewCommand(o.source.value, func(ctx context.Context) (hostsource.Machine, error) {
			m, err := local.Start(ctx, []string{e.executable, "agent", noLease}, e.agentLog)
			if err != nil {
				return nil, err
			}
			return m, nil
		})
	case hostsURLFlag:
		u, err := hostsource.NewURL(o.source.value)
		if err != nil {
			return nil, fmt.Errorf("launch: --%s: %w", hostsURLFlag, err)
		}
		s = u
	default:
		return nil, nil
	}
	return hostsource.New(hostsource.Config{Source: s, Interval: o.source.interval, Force: o.source.force, Progress: e.progress, Logger: e.log}), nil
}

// A sourceJob is the job whose hosts a source names, and a new one after each restart.
type sourceJob struct {
	mu sync.Mutex

	// where is nil if the job does not run.
	where *job.Where
}

// started says where the job is. What it returns says that the job has ended.
func (j *sourceJob) started(w job.Where) (ended func()) {
	set := func(w *job.Where) {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.where = w
	}
	set(&w)
	return func() { set(nil) }
}

var errNoJob = errors.New("the job is not running")

func (j *sourceJob) ask(ctx context.Context, q control.Request, into control.Answer) error {
	j.mu.Lock()
	w := j.where
	j.mu.Unlock()
	if w == nil {
		return errNoJob
	}
	_, err := jobScheduler{*w}.Ask(ctx, q, into)
	return err
}

// Hosts implements hostsource.Job.
func (j *sourceJob) Hosts(ctx context.Context) ([]control.Host, error) {
	var s control.Status
	if err := j.ask(ctx, control.Request{Op: control.OpStatus}, &s); err != nil {
		return nil, err
	}
	if s.Phase != control.Running {
		return nil, errNoJob
	}
	return s.Hosts, nil
}

// Again implements hostsource.Job.
func (j *sourceJob) Again(ctx context.Context, h hosts.Host) error {
	return j.ask(ctx, control.Request{Op: control.OpAdd, Host: h.String(), Slots: h.Slots, GPUs: h.GPUs, CPUs: h.CPUs}, &control.Done{})
}

// followSource keeps the hosts of an elastic job as a source says, until what it returns is called.
// f may be nil.
func followSource(f *hostsource.Follower, files *hostworker.Files, j *sourceJob) (stop func()) {
	if f == nil || files == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var following sync.WaitGroup
	following.Go(func() { f.Follow(ctx, files, j) })
	return func() { cancel(); following.Wait() }
}

package main

import (
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/launch/internal/command"
	"github.com/paragon-train/paragon/launch/internal/job"
)

// readElastic reads what may change while the job runs.
func (o *options) readElastic(c *cli.Context) error {
	enabled, err := parseBool(c.String(elasticFlag))
	if err != nil {
		return command.Usagef("--%s: %v", elasticFlag, err)
	}
	policy := c.String("on-worker-loss")
	switch policy {
	case "", job.LossShrink, job.LossWait, job.LossFail:
	default:
		return command.Usagef("--on-worker-loss %q is unknown; want shrink, wait or fail", policy)
	}
	o.elastic = job.Elastic{Enabled: enabled, OnWorkerLoss: policy, Backups: c.Int("backups")}
	survives := policy == job.LossShrink || policy == job.LossWait || policy == "" && enabled
	if survives {
		o.elastic.Rejoin = c.Int("rejoin")
	}
	for _, name := range []string{"max-workers", "adapt-workers", "join-timeout", "prepare-data"} {
		if c.IsSet(name) && !enabled {
			return command.Usagef("--%s is about hosts that join; give --%s, too", name, elasticFlag)
		}
	}
	for _, name := range []string{"min-workers", "rejoin"} {
		if c.IsSet(name) && !survives {
			return command.Usagef("--%s is for jobs that go on without a lost worker; give --on-worker-loss shrink or wait, too", name)
		}
	}
	for _, read := range []func(*cli.Context) error{o.readWorkerLimits, o.readLosses, o.readPreparation} {
		if err := read(c); err != nil {
			return err
		}
	}
	return nil
}

// readWorkerLimits reads between which numbers the workers may change.
func (o *options) readWorkerLimits(c *cli.Context) error {
	e := &o.elastic
	if c.IsSet("min-workers") {
		if e.MinWorkers = c.Int("min-workers"); e.MinWorkers < 1 || e.MinWorkers > o.workers {
			return command.Usagef("--min-workers is %d, want 1 to the %d of -n", e.MinWorkers, o.workers)
		}
	}
	if c.IsSet("max-workers") {
		if e.MaxWorkers = c.Int("max-workers"); e.MaxWorkers < o.workers || e.MaxWorkers > cluster.MaxNodes {
			return command.Usagef("--max-workers is %d, want at least the %d of -n and at most %d", e.MaxWorkers, o.workers, cluster.MaxNodes)
		}
	}
	e.AdaptWorkers = c.Bool("adapt-workers")
	if !e.AdaptWorkers || e.MaxWorkers > 0 {
		return nil
	}
	if o.hosts == nil {
		return command.Usagef("--adapt-workers needs a limit; give --max-workers NUMBER")
	}
	for _, h := range o.hosts {
		if h.Slots == 0 {
			return command.Usagef("--adapt-workers needs a limit; give --max-workers NUMBER, or slots=NUMBER for every host of the hosts file")
		}
		e.MaxWorkers += h.Slots
	}
	return nil
}

// readLosses reads what happens when processes are lost. Those of workers have been read.
func (o *options) readLosses(c *cli.Context) error {
	e := &o.elastic
	switch e.JoinTimeout = c.Duration("join-timeout"); {
	case e.JoinTimeout < time.Second || e.JoinTimeout > maxTime:
		return command.Usagef("--join-timeout is %s, want at least 1s, such as 30s or 5m, and at most %.0fh", e.JoinTimeout, maxTime.Hours())
	case e.Rejoin < 0 || e.Rejoin > maxRetries:
		return command.Usagef("--rejoin is %d, want 0, for never, to %d", e.Rejoin, maxRetries)
	case e.Backups < 0 || e.Backups > 1:
		return command.Usagef("--backups is %d, want 0 or 1", e.Backups)
	case e.Backups == 1 && o.servers < 2:
		return command.Usagef("--backups 1 keeps each shard on two servers, and there is 1; give -s 2 or more")
	}
	return nil
}

func (o *options) readPreparation(c *cli.Context) error {
	if text := c.String("prepare-data"); c.IsSet("prepare-data") {
		if strings.TrimSpace(text) == "" {
			return command.Usagef("--prepare-data is empty; give a command, in quotes if it has spaces")
		}
		o.elastic.PrepareData = []string{"/bin/sh", "-c", text}
	}
	return nil
}

// readState reads how often the job may be restarted, and where its scheduler keeps its state.
func (o *options) readState(c *cli.Context) error {
	s := &o.survival
	if s.restarts = c.Int("restarts"); s.restarts < 0 || s.restarts > maxRetries {
		return command.Usagef("--restarts is %d, want 0, for never, to %d", s.restarts, maxRetries)
	}
	s.state = c.String("state")
	switch {
	case !c.IsSet("state"):
		return nil
	case strings.HasPrefix(s.state, "etcd://"):
		u, err := url.Parse(s.state)
		if err != nil || u.Hostname() == "" || u.Port() == "" {
			return command.Usagef("--state %q is not an address of etcd; write etcd://host:port/prefix", s.state)
		}
		s.state = strings.TrimSuffix(s.state, "/")
	case strings.Contains(s.state, "://"):
		return command.Usagef("--state %q: want a folder or etcd://host:port/prefix", s.state)
	case s.state == "":
		return command.Usagef("--state is empty; give a folder, or etcd://host:port/prefix")
	case o.schedulerHost == nil:
		abs, err := filepath.Abs(s.state)
		if err != nil {
			return command.Usagef("--state: %v", err)
		}
		s.state = abs
	case !filepath.IsAbs(s.state):
		return command.Usagef("--state %s is on the scheduler's host; give an absolute path", s.state)
	}
	return nil
}

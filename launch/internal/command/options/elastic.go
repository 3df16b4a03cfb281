package options

import (
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/launch/internal/command"
	"github.com/paragon-train/paragon/launch/internal/job"
)

// readElastic reads what may change while the job runs, of a job that begins with so many workers
// and servers: who may join and leave, and what follows the loss of a worker or a server. known are
// its hosts; nil: they are known only when the job starts.
func readElastic(c *cli.Context, workers, servers int, known []hosts.Host) (e job.Elastic, err error) {
	enabled, err := parseBool(c.String(elasticFlag))
	if err != nil {
		return e, command.Usagef("--%s: %v", elasticFlag, err)
	}
	policy := c.String("on-worker-loss")
	switch policy {
	case "", job.LossShrink, job.LossWait, job.LossFail:
	default:
		return e, command.Usagef("--on-worker-loss %q is unknown; want shrink, wait or fail", policy)
	}
	e = job.Elastic{Enabled: enabled, OnWorkerLoss: policy, Backups: c.Int("backups")}

	// Without it a lost worker ends the job, and flags about what follows mean nothing. With it
	// a lost worker is started again, also by shrink: --rejoin is 3 where it is not given.
	survives := GoesOnWithout(policy, enabled)
	if survives {
		e.Rejoin = c.Int("rejoin")
	}
	for _, name := range []string{"max-workers", "adapt-workers", "join-timeout", "prepare-data"} {
		if c.IsSet(name) && !enabled {
			return e, command.Usagef("--%s is about hosts that join; give --%s, too", name, elasticFlag)
		}
	}
	for _, name := range []string{"min-workers", "rejoin"} {
		if c.IsSet(name) && !survives {
			return e, command.Usagef("--%s is for jobs that go on without a lost worker; give --on-worker-loss shrink or wait, too", name)
		}
	}
	if err := readWorkerLimits(c, &e, workers, known); err != nil {
		return e, err
	}
	if err := readLosses(c, &e, servers); err != nil {
		return e, err
	}
	e.PrepareData, err = readPreparation(c)
	return e, err
}

// readWorkerLimits reads between which numbers the workers may change.
func readWorkerLimits(c *cli.Context, e *job.Elastic, workers int, known []hosts.Host) error {
	if c.IsSet("min-workers") {
		if e.MinWorkers = c.Int("min-workers"); e.MinWorkers < 1 || e.MinWorkers > workers {
			return command.Usagef("--min-workers is %d, want 1 to the %d of -n", e.MinWorkers, workers)
		}
	}
	if c.IsSet("max-workers") {
		if e.MaxWorkers = c.Int("max-workers"); e.MaxWorkers < workers || e.MaxWorkers > cluster.MaxNodes {
			return command.Usagef("--max-workers is %d, want at least the %d of -n and at most %d", e.MaxWorkers, workers, cluster.MaxNodes)
		}
	}
	e.AdaptWorkers = c.Bool("adapt-workers")
	if !e.AdaptWorkers || e.MaxWorkers > 0 {
		return nil
	}
	if known == nil {
		return command.Usagef("--adapt-workers needs a limit; give --max-workers NUMBER")
	}
	for _, h := range known {
		if h.Slots == 0 {
			return command.Usagef("--adapt-workers needs a limit; give --max-workers NUMBER, or slots=NUMBER for every host of the hosts file")
		}
		e.MaxWorkers += h.Slots
	}
	return nil
}

// readLosses reads what happens when processes are lost. Those of workers have been read.
func readLosses(c *cli.Context, e *job.Elastic, servers int) error {
	switch e.JoinTimeout = c.Duration("join-timeout"); {
	case e.JoinTimeout < time.Second || e.JoinTimeout > maxTime:
		return command.Usagef("--join-timeout is %s, want at least 1s, such as 30s or 5m, and at most %.0fh", e.JoinTimeout, maxTime.Hours())
	case e.Rejoin < 0 || e.Rejoin > maxRetries:
		return command.Usagef("--rejoin is %d, want 0, for never, to %d", e.Rejoin, maxRetries)
	case e.Backups < 0 || e.Backups > 1:
		return command.Usagef("--backups is %d, want 0 or 1", e.Backups)
	case e.Backups == 1 && servers < 2:
		return command.Usagef("--backups 1 keeps each shard on two servers, and there is 1; give -s 2 or more")
	}
	return nil
}

// readPreparation reads the command that prepares a host which joins; nil: there is none.
func readPreparation(c *cli.Context) ([]string, error) {
	if !c.IsSet("prepare-data") {
		return nil, nil
	}
	text := c.String("prepare-data")
	if strings.TrimSpace(text) == "" {
		return nil, command.Usagef("--prepare-data is empty; give a command, in quotes if it has spaces")
	}
	return []string{"/bin/sh", "-c", text}, nil
}

// GoesOnWithout reports whether a job goes on when it loses workers, by --on-worker-loss. Where
// that is not given, an elastic job does.
func GoesOnWithout(policy string, elastic bool) bool {
	return policy == job.LossShrink || policy == job.LossWait || policy == "" && elastic
}

// elasticFlag lets hosts join and leave. Its value may be missing, see JoinBool.
const elasticFlag = "elastic-training-enabled"

// parseBool reads what people write for yes and no; the empty word is no.
func parseBool(s string) (bool, error) {
	switch strings.ToLower(s) {
	case "true", "t", "yes", "y", "on", "1":
		return true, nil
	case "", "false", "f", "no", "n", "off", "0":
		return false, nil
	}
	return false, fmt.Errorf("%q is neither True nor False", s)
}

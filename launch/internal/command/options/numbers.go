package options

import (
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/launch/internal/command"
	"github.com/paragon-train/paragon/launch/internal/slurm"
)

// Limits of flags, beyond which a number or a time is a mistake.
const (
	maxRetries = 1_000_000

	// maxTime is ten years.
	maxTime = 10 * 365 * 24 * time.Hour
)

// readNumbers reads how many workers and servers there are. A check needs none, and takes one.
func readNumbers(c *cli.Context, check bool, lookup func(string) (string, bool)) (workers, servers int, err error) {
	given := c.IsSet("num-workers")
	switch workers = c.Int("num-workers"); {
	case given:
	case check:
		workers = 1
	default:
		if workers, err = slurmWorkers(c, workers, lookup); err != nil {
			return 0, 0, err
		}
		if workers == 0 {
			return 0, 0, command.Usagef("the number of workers is missing; give -n NUMBER")
		}
	}

	// The advice of checkNodes depends on whether the user has chosen the number.
	if servers = c.Int("num-servers"); !c.IsSet("num-servers") {
		servers = workers
	}
	if err := command.CheckNumber("-n", workers, 1, cluster.MaxNodes, " workers"); err != nil {
		return 0, 0, err
	}
	if err := command.CheckNumber("-s", servers, 1, cluster.MaxNodes, " servers"); err != nil {
		return 0, 0, err
	}
	return workers, servers, checkNodes(workers, servers, c.IsSet("num-servers"))
}

// slurmWorkers has a job on an allocation begin with a worker for each of its tasks, or for each
// node where Slurm does not say how many tasks there are. Elsewhere the number stays.
func slurmWorkers(c *cli.Context, workers int, lookup func(string) (string, bool)) (int, error) {
	if m, _ := methodOf(c); m.name != SlurmMethod {
		return workers, nil
	}
	a, err := slurm.Read(lookup)
	if err != nil {
		return 0, command.Usage(fmt.Errorf("launch: --launcher slurm: %w", err))
	}
	if n := a.Tasks(); n > 0 {
		return n, nil
	}
	return len(a.Nodes), nil
}

// checkNodes refuses more nodes than a job can have.
func checkNodes(workers, servers int, serversGiven bool) error {
	if workers+servers <= cluster.MaxNodes {
		return nil
	}
	why, advice := "", "start fewer"
	if !serversGiven {
		why, advice = " (as many, since -s is not given)", "give -s NUMBER"
	}
	return command.Usagef("-n %d and %d servers%s are %d nodes, want at most %d in all; %s", workers, servers, why, workers+servers, cluster.MaxNodes, advice)
}

// Times bounds how long things may take. All are more than 0.
type Times struct {
	// Start is how long the processes may take to join, stop how long workers may take to save
	// their state, and checkpoint how long they may take to write the checkpoint of a stop.
	Start, Stop, Checkpoint time.Duration

	// Host is how long a host may be silent before it is lost.
	Host time.Duration
}

// read reads the times. A host's is more than a second: an idle one is heard of twice a second, and
// a network may stall for a moment.
func (t *Times) read(c *cli.Context) error {
	*t = Times{
		Start: c.Duration("start-timeout"), Stop: c.Duration("stop-timeout"), Checkpoint: c.Duration("checkpoint-timeout"), Host: c.Duration("host-timeout"),
	}
	for _, d := range []struct {
		name         string
		value, least time.Duration
	}{{"start-timeout", t.Start, 0}, {"stop-timeout", t.Stop, 0}, {"checkpoint-timeout", t.Checkpoint, 0}, {"host-timeout", t.Host, time.Second}} {
		if d.value <= d.least || d.value > maxTime {
			return command.Usagef("--%s is %s, want more than %s, such as 30s or 5m, and at most %.0fh", d.name, d.value, d.least, maxTime.Hours())
		}
	}
	return nil
}

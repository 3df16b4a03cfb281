package start

import (
	"context"
	"fmt"
	"strings"

	"github.com/paragon-train/paragon/internal/hosts/agent/dialin"
	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/hosts/ssh"
	"github.com/paragon-train/paragon/launch/internal/command/agent"
	"github.com/paragon-train/paragon/launch/internal/command/options"
	"github.com/paragon-train/paragon/launch/internal/method"
	"github.com/paragon-train/paragon/launch/internal/mpi"
)

// openMPI starts an agent on each host of mpirun.
func openMPI(ctx context.Context, o *options.Options, e Environment) (method.Method, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, o.Times.Start, fmt.Errorf("no answer within %s (--start-timeout)", o.Times.Start))
	defer cancel()

	// The options of mpirun are those of Open MPI.
	if err := mpi.Check(ctx, o.Start.Mpirun); err != nil {
		return nil, fmt.Errorf("launch: %w; for another MPI start the agents by hand, and launch with --launcher agents: see docs/how-to/mpi.md", err)
	}

	// mpirun alone knows its hosts, so a first run of it tells them.
	all, err := mpi.Hosts(ctx, o.Start.Mpirun)
	if err != nil {
		return nil, fmt.Errorf("launch: %w", err)
	}
	l, err := listen(ctx, o, e, "")
	if err != nil {
		return nil, err
	}
	run, err := mpi.Start(mpi.Config{
		Mpirun: o.Start.Mpirun, Command: append([]string{e.Executable, "agent", "--join", strings.Join(l.Addresses(), ",")}, agent.SpotArguments(o.Survival.Spot)...),
		Env: []string{dialin.SecretVariable + "=" + l.secret.Encode()}, Output: e.AgentLog, Logger: e.Log,
	})
	if err != nil {
		l.Close()
		return nil, fmt.Errorf("launch: %w", err)
	}
	return &mpiJob{method.NewStarted(agentsConfig(o, l, e), all, run, func(hosts.Host) string { return ssh.Quote(o.Start.Mpirun) }), l}, nil
}

// An mpiJob is the hosts of mpirun with the address file of their job.
type mpiJob struct {
	*method.Started
	l *listener
}

// Close implements method.Method.
func (j *mpiJob) Close() error {
	j.l.removeAddresses()
	return j.Started.Close()
}

package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/internal/hosts/agent/dialin"
	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/hosts/ssh"
	"github.com/paragon-train/paragon/launch/internal/command"
	"github.com/paragon-train/paragon/launch/internal/method"
	"github.com/paragon-train/paragon/launch/internal/mpi"
)

// mpiMethod is the value of --launcher, and mpiFlag its flag.
const (
	mpiMethod = "mpi"
	mpiFlag   = "mpirun"
)

func mpiFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: mpiFlag, Usage: "Open MPI's mpirun, with its options for the hosts (`WORDS` as in a shell; --launcher mpi)", Value: "mpirun"},
	}
}

func (o *options) readMPI(c *cli.Context) error {
	o.remote = true
	var err error
	switch o.mpirun, err = ssh.SplitWords(c.String(mpiFlag)); {
	case err != nil || len(o.mpirun) == 0:
		return command.Usagef("--mpirun %q is not a command: %v", c.String(mpiFlag), err)
	case o.hostfile != "":
		return command.Usagef("--launcher mpi runs on the hosts of mpirun; leave out -H %s, and give mpirun its own: --mpirun \"mpirun --hostfile FILE\"", o.hostfile)
	case c.IsSet("sync-dst-dir"):
		return command.Usagef("--sync-dst-dir copies over ssh; with mpirun start launch in a folder that all hosts share, and leave it out")
	case c.IsSet("scheduler-host"):
		return command.Usagef("--scheduler-host is for --launcher ssh; with mpirun the scheduler runs beside launch")
	case sshCommandGiven(c):
		return command.Usagef("--ssh-command is for --launcher ssh; mpirun has its own: --mpirun \"mpirun --mca plm_rsh_agent COMMAND\"")
	case c.IsSet("agents"):
		return command.Usagef("--agents is for --launcher agents; with mpirun there is one agent for each of its hosts")
	}
	return o.readListen(c)
}

func openMPI(ctx context.Context, o *options, e startEnvironment) (method.Method, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, o.times.start, fmt.Errorf("no answer within %s (--start-timeout)", o.times.start))
	defer cancel()
	if err := mpi.Check(ctx, o.mpirun); err != nil {
		return nil, fmt.Errorf("launch: %w; for another MPI start the agents by hand, and launch with --launcher agents: see docs/how-to/mpi.md", err)
	}
	all, err := mpi.Hosts(ctx, o.mpirun)
	if err != nil {
		return nil, fmt.Errorf("launch: %w", err)
	}
	l, err := o.listenForAgents(ctx, e, "")
	if err != nil {
		return nil, err
	}
	run, err := mpi.Start(mpi.Config{
		Mpirun: o.mpirun, Command: append([]string{e.executable, "agent", "--join", strings.Join(l.Addresses(), ",")}, spotArguments(o.survival.spot)...),
		Env: []string{dialin.SecretVariable + "=" + l.secret.Encode()}, Output: e.agentLog, Logger: e.log,
	})
	if err != nil {
		l.Close()
		return nil, fmt.Errorf("launch: %w", err)
	}
	return &mpiJob{method.NewStarted(o.agentsConfig(l, e), all, run, func(hosts.Host) string { return ssh.Quote(o.mpirun) }), o, l}, nil
}

// An mpiJob is the hosts of mpirun with the address file of their job.
type mpiJob struct {
	*method.Started
	o *options
	l *listener
}

// Close implements method.Method.
func (j *mpiJob) Close() error {
	if path := j.o.agent.addressFile; path != "" {
		removeAddresses(path, j.l.Addresses())
	}
	return j.Started.Close()
}

// Package start opens the start method that a command line names: it makes of options the hosts of
// a job and the ways to them.
//
// A start method (launch/internal/method) knows which hosts there are and connects to each. What is
// a cluster's own is in a package of its own, such as launch/internal/slurm or mpi, without
// knowledge of flags; here the two meet. Methods by which agents dial in (agents, mpi, slurm) share
// a listener, whose secret and addresses go to the agents, never to a process of the job.
//
// What is opened lives until its Close. An error leaves nothing open.
package start

import (
	"context"

	"github.com/paragon-train/paragon/launch/internal/command/options"
	"github.com/paragon-train/paragon/launch/internal/method"
)

// Open opens the start method that the command line names. Its error says what to do, and
// nothing is left open then.
func Open(ctx context.Context, o *options.Options, e Environment) (method.Method, error) {
	switch o.Start.Method {
	case options.SSHMethod:
		return openSSH(o, e)
	case options.SlurmMethod:
		return openSlurm(ctx, o, e)
	case options.MPIMethod:
		return openMPI(ctx, o, e)
	case options.AgentsMethod:
		return openAgents(ctx, o, e)
	}
	return OpenLocal(o, e), nil
}

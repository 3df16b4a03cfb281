// Package agent supervises the processes of a job on one host, so that none of them outlives the
// launcher.
//
// The launcher runs one agent on each host (`launch agent`), directly or through ssh, and exchanges
// frames with it over the agent's standard input and output. The launcher sends what to start, with
// environment and secrets, so no command line shows them. The agent sends output and exit codes.
// The input is also a lease: when it ends (the launcher was killed, the connection broke) or is
// silent for Lease, the agent stops everything it started, first by SIGTERM, then by SIGKILL, and
// exits. On Linux this includes grandchildren that left their process group, because the agent
// adopts them.
//
// A host may be about to be taken away: the agent gets SIGTERM itself, as on a shutdown, or Watch
// has a notice of the provider. The agent then sends a Notice, and after SIGTERM keeps its
// processes for up to Drain, so that the launcher can let them leave the job.
//
// Serve is the agent's side, Client the launcher's.
package agent

import (
	"context"
	"log/slog"
	"time"
)

// PingInterval is the interval at which an idle Client renews the lease of its agent.
const PingInterval = 500 * time.Millisecond

// Config configures Serve.
type Config struct {
	// Executable is the program that a Spec with Self runs.
	Executable string

	// Lease is the silence after which the launcher is taken for dead; 0: 4 s; negative: there is
	// no limit.
	Lease time.Duration

	// Grace is the time from SIGTERM to SIGKILL when the launcher is gone; 0: 3 s. It is at most
	// 500 ms after the Lease has expired or a read has failed.
	Grace time.Duration

	// Drain is the time from the agent's SIGTERM to the SIGKILL of its processes while the launcher
	// lives; 0: 20 s.
	Drain time.Duration

	// Adopt says that orphaned descendants are adopted and killed. It is only for a process that is
	// nothing but an agent.
	Adopt bool

	Logger *slog.Logger // slog.Default()

	// GPUs lists the UUIDs of this machine's GPUs; nil: gpus.Installed.
	GPUs func() ([]string, error)

	// Watch, if set, runs beside Serve until ctx ends, and tells of each notice that this host
	// is about to be taken away.
	Watch func(ctx context.Context, tell func(Notice))
}

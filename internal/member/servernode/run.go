// Package servernode takes part in a job as a server: it registers with the scheduler, serves the
// shards of package shardserver to the workers, and follows the membership until the job ends.
//
// The shards know nothing of the membership's protocol, and the protocol nothing of shards. What is
// between them is here: each membership that the scheduler sends is read with the placement of
// shards that belongs to it, and then given to the shards; what lost workers have contributed is
// reported back.
package servernode

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/internal/observe/telemetry"
	"github.com/paragon-train/paragon/internal/store/shardserver"
	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// Run joins a job as a server, which sets the role, and serves until the job has ended: nil if it
// finished, else why it failed. When ctx ends first, the server leaves, which fails the job, and
// Run returns ctx's cause.
//
// Run sets the Recorder and the Trace of cfg to the node's. Its Logger is by default the job's.
func Run(ctx context.Context, job cluster.Config, cfg shardserver.Config) error {
	cfg.Logger = cmp.Or(cfg.Logger, job.Logger, joblog.Process())
	job.Role = cluster.Server
	// Connections take the recorder when they are made.
	job.Recorder = cmp.Or(job.Recorder, new(telemetry.Recorder))
	ln, addr, err := cluster.Listen(ctx, job)
	if err != nil {
		return fmt.Errorf("server: %w", err)
	}
	job.Addr = addr
	node, err := cluster.Join(ctx, job)
	if err != nil {
		ln.Close()
		if errors.Is(err, cluster.ErrFinished) {
			// It finished before this server began.
			return nil
		}
		return fmt.Errorf("server: %w", err)
	}
	defer node.Close()

	cfg.Recorder, cfg.Trace = job.Recorder, node.Trace()
	s := shardserver.New(cfg)
	s.SetPeers(context.WithoutCancel(ctx), peers{node})
	defer s.Close()
	tc := job.Transport()
	tc.Logger = cfg.Logger
	ts := transport.NewServer(ln, s, tc)
	served := make(chan error, 1)
	var serving sync.WaitGroup
	serving.Go(func() { served <- ts.Serve() })
	defer serving.Wait()
	defer ts.Close()

	f := &follower{server: s, node: node, logger: cfg.Logger, served: served}
	err = f.follow(ctx)
	s.Fail(reasonOf(err))
	// Waiting requests are answered with the reason; workers close their connections when they
	// end.
	quiet, cancel := context.WithTimeout(context.Background(), linger)
	defer cancel()
	// Its error says only that a connection is still open.
	_ = ts.AwaitDisconnects(quiet)
	return err
}

// linger bounds how long a server waits for workers to close their connections once the job has
// ended. A worker needs one round trip for it.
const linger = 2 * time.Second

// reasonOf is the reason in answers to requests that still come.
func reasonOf(err error) string {
	if err == nil {
		return "the job has finished"
	}
	return err.Error()
}

// A follower keeps a server's membership up to date until the job ends.
type follower struct {
	server *shardserver.Server
	node   *cluster.Node
	logger *slog.Logger
	// served gets the result of the transport's Serve.
	served <-chan error

	// progress and sweep say when what they are named for is due.
	progress, sweep *time.Ticker
}

// follow returns when the job has ended for this server: nil if it finished, or if it has removed
// the server.
func (f *follower) follow(ctx context.Context) error {
	f.progress, f.sweep = time.NewTicker(time.Second), time.NewTicker(sweepEvery)
	defer f.progress.Stop()
	defer f.sweep.Stop()
	losses := newLossReporter(ctx, f.node, f.server.ExamplesOf, f.logger)
	defer losses.close()
	for {
		// The channel comes first, so that no membership after the one that is read is missed.
		changed := f.node.Changed()
		m := f.node.Membership()
		if m.Phase == wire.PhaseRunning && !slices.ContainsFunc(m.Nodes, func(n wire.Member) bool { return n.Node == uint64(f.node.ID()) }) {
			f.leaveRemoved(ctx)
			return nil
		}
		var soon <-chan time.Time
		if m.Phase > wire.PhaseRunning {
			// The job is ending: Done will be closed, and no further round may close.
			changed = nil
		} else if err := f.server.Follow(ctx, m); errors.Is(err, shardserver.ErrPlacement) {
			// A newer membership is about to arrive, or the job has ended.
			soon = time.After(placementPause)
		} else if err != nil {
			f.leave(err)
			return err
		} else {
			losses.report(m.Placement, m.LostToCount)
		}
		if over, err := f.await(ctx, changed, soon); over {
			return err
		}
	}
}

// await returns when the membership is to be read again, or when the server is over, with why.
func (f *follower) await(ctx context.Context, changed <-chan struct{}, soon <-chan time.Time) (over bool, err error) {
	for {
		select {
		case <-changed:
			return false, nil
		case <-soon:
			return false, nil
		case <-f.progress.C:
			f.node.Progress(f.server.Rounds(), 0)
		case <-f.sweep.C:
			f.server.Sweep()
		case <-f.node.Done():
			if err := f.node.Err(); err != nil {
				return true, fmt.Errorf("server %d: %w", f.node.Rank(), err)
			}
			return true, nil
		case err := <-f.served:
			if err == nil {
				err = fmt.Errorf("server %d: its listener was closed", f.node.Rank())
			}
			f.leave(err)
			return true, err
		case <-ctx.Done():
			err := context.Cause(ctx)
			f.leave(err)
			return true, fmt.Errorf("server %d: %w", f.node.Rank(), err)
		}
	}
}

// sweepEvery is how often unused memory is freed, such as that of shards that have moved to other
// servers. A few steps' time, so that buffers that every round needs stay.
const sweepEvery = 10 * time.Second

// placementPause is the time between two attempts to read the placement. Workers' requests wait
// meanwhile, so it is short.
const placementPause = 20 * time.Millisecond

// leaveRemoved leaves a job that has removed this server and given its shards to others.
func (f *follower) leaveRemoved(ctx context.Context) {
	f.logger.Info("server: removed from the job as requested; other servers have its shards", joblog.NodeLeft.With())
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if err := f.node.Leave(ctx, true, "removed"); err != nil {
		f.logger.Warn("server: leave", "err", err)
	}
}

// leave tells the scheduler, within a second, that this server ends.
func (f *follower) leave(why error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := f.node.Leave(ctx, false, fmt.Sprintf("server %d ends: %v", f.node.Rank(), why)); err != nil {
		f.logger.Warn("server: leave", "err", err)
	}
}

// peers are the other servers of a node's job, as a shardserver.Peers.
type peers struct{ node *cluster.Node }

func (p peers) ID() uint64   { return uint64(p.node.ID()) }
func (p peers) Rank() uint32 { return uint32(p.node.Rank()) }

func (p peers) Server(rank uint32) (transport.Caller, error) {
	c, _, err := p.node.Server(cluster.Rank(rank))
	return c, err
}

func (p peers) Places(ctx context.Context, from uint64) (wire.Places, error) {
	return p.node.Places(ctx, from)
}

func (p peers) Filled(ctx context.Context, m wire.Filled) error { return p.node.Filled(ctx, m) }

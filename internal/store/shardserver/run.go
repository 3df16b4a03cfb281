package shardserver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/internal/observe/telemetry"
	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// Run joins a job as a server, which sets the role, and serves until the job has ended: nil if it
// finished, else why it failed. When ctx ends first, the server leaves, which fails the job, and
// Run returns ctx's cause.
func Run(ctx context.Context, job cluster.Config, cfg Config) error {
	if cfg.Logger == nil {
		cfg.Logger = job.Logger
	}
	cfg = cfg.withDefaults()
	job.Role = cluster.Server
	if job.Recorder == nil {
		job.Recorder = new(telemetry.Recorder)
		// Connections take the recorder when they are made.
	}
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
	s := New(cfg)
	s.SetPeers(context.WithoutCancel(ctx), node)
	defer s.replicator.close()
	tc := job.Transport()
	tc.Logger = cfg.Logger
	ts := transport.NewServer(ln, s, tc)
	served := make(chan error, 1)
	var serving sync.WaitGroup
	serving.Go(func() { served <- ts.Serve() })
	defer serving.Wait()
	defer ts.Close()

	err = s.followMembership(ctx, node, served)
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

// followMembership keeps the membership up to date until the job ends.
func (s *Server) followMembership(ctx context.Context, node *cluster.Node, served chan error) error {
	f := &follower{s: s, node: node, served: served, progress: time.NewTicker(time.Second), sweep: time.NewTicker(sweepEvery)}
	defer f.progress.Stop()
	defer f.sweep.Stop()
	losses := newLossReporter(ctx, s, node)
	defer losses.close()
	for {
		changed := node.Changed()
		m := node.Membership()
		if m.Phase == wire.PhaseRunning && !slices.ContainsFunc(m.Nodes, func(n wire.Member) bool { return n.Node == uint64(node.ID()) }) {
			s.leaveRemoved(ctx, node)
			return nil
		}
		var soon <-chan time.Time
		if m.Phase > wire.PhaseRunning {
			// The job is ending: Done will be closed, and no further round may close.
			changed = nil
		} else if p, err := s.readPlacement(ctx, &m); err != nil {
			// A newer membership is about to arrive, or the job has ended.
			soon = time.After(placementPause)
		} else if err := s.setMembership(m, p); err != nil {
			s.leave(node, err)
			return err
		} else {
			losses.report(m.Placement, m.LostToCount)
		}
		if over, err := f.await(ctx, changed, soon); over {
			return err
		}
	}
}

// A follower waits for what a server's shell reacts to between two memberships.
type follower struct {
	s               *Server
	node            *cluster.Node
	served          chan error
	progress, sweep *time.Ticker
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
			f.node.Progress(f.s.Rounds(), 0)
		case <-f.sweep.C:
			f.s.pool.Sweep()
		case <-f.node.Done():
			if err := f.node.Err(); err != nil {
				return true, fmt.Errorf("server %d: %w", f.node.Rank(), err)
			}
			return true, nil
		case err := <-f.served:
			if err == nil {
				err = fmt.Errorf("server %d: its listener was closed", f.node.Rank())
			}
			f.s.leave(f.node, err)
			return true, err
		case <-ctx.Done():
			err := context.Cause(ctx)
			f.s.leave(f.node, err)
			return true, fmt.Errorf("server %d: %w", f.node.Rank(), err)
		}
	}
}

// leaveRemoved leaves a job that has removed this server and given its shards to others.
func (s *Server) leaveRemoved(ctx context.Context, node *cluster.Node) {
	s.cfg.Logger.Info("server: removed from the job as requested; other servers have its shards", joblog.NodeLeft.With())
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if err := node.Leave(ctx, true, "removed"); err != nil {
		s.cfg.Logger.Warn("server: leave", "err", err)
	}
}

// sweepEvery is how often unused memory is freed, such as that of shards that have moved to other
// servers. A few steps' time, so that buffers that every round needs stay.
const sweepEvery = 10 * time.Second

// placementPause is the time between two attempts to read the placement. Workers' requests wait
// meanwhile, so it is short.
const placementPause = 20 * time.Millisecond

// leave tells the scheduler, within a second, that this server ends.
func (s *Server) leave(node *cluster.Node, why error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := node.Leave(ctx, false, fmt.Sprintf("server %d ends: %v", node.Rank(), why)); err != nil {
		s.cfg.Logger.Warn("server: leave", "err", err)
	}
}

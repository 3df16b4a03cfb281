package shardserver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/paragon-train/paragon/internal/cluster"
	"github.com/paragon-train/paragon/internal/transport"
	"github.com/paragon-train/paragon/internal/wire"
)

// Run joins a job as a server, which sets the role, and serves until the job has ended: nil if it finished, else why it failed. When ctx
// ends first, the server leaves, which fails the job, and Run returns ctx's cause.
func Run(ctx context.Context, job cluster.Config, cfg Config) error {
	if cfg.Logger == nil {
		cfg.Logger = job.Logger
	}
	cfg = cfg.withDefaults()
	job.Role = cluster.Server
	ln, addr, err := cluster.Listen(ctx, job)
	if err != nil {
		return fmt.Errorf("server: %w", err)
	}
	job.Addr = addr
	node, err := cluster.Join(ctx, job)
	if err != nil {
		ln.Close()
		if errors.Is(err, cluster.ErrFinished) { // before it began
			return nil
		}
		return fmt.Errorf("server: %w", err)
	}
	defer node.Close()

	s := New(cfg)
	s.SetPeers(context.WithoutCancel(ctx), node)
	defer s.copiers.close()
	tc := job.Transport()
	tc.Logger = cfg.Logger
	ts := transport.NewServer(ln, s, tc)
	served := make(chan error, 1)
	var serving sync.WaitGroup
	serving.Go(func() { served <- ts.Serve() })
	defer serving.Wait()
	defer ts.Close()

	err = s.follow(ctx, node, served)
	s.Fail(reasonOf(err))
	// Workers that wait are told why on their open connections, and close these when they end.
	quiet, cancel := context.WithTimeout(context.Background(), linger)
	defer cancel()
	_ = ts.Alone(quiet) // its error says only that somebody stayed
	return err
}

// linger bounds how long a server stays for its workers once the job has ended and they have been told.
const linger = 2 * time.Second

// reasonOf is what workers are told that still ask.
func reasonOf(err error) string {
	if err == nil {
		return "the job has finished"
	}
	return err.Error()
}

// follow keeps the membership up to date until the job ends.
func (s *Server) follow(ctx context.Context, node *cluster.Node, served chan error) error {
	progress := time.NewTicker(time.Second)
	defer progress.Stop()
	sweep := time.NewTicker(sweepEvery)
	defer sweep.Stop()
	settling := newSettling(ctx, s, node)
	defer settling.close()
	for {
		changed := node.Changed()
		m := node.Membership()
		if m.Phase == wire.PhaseRunning && !slices.ContainsFunc(m.Nodes, func(n wire.Member) bool { return n.Node == uint64(node.ID()) }) {
			s.cfg.Logger.Info("server: removed from the job as asked; others have its shards")
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			if err := node.Leave(ctx, true, "removed"); err != nil {
				s.cfg.Logger.Warn("server: leave", "err", err)
			}
			return nil
		}
		var soon <-chan time.Time
		if m.Phase > wire.PhaseRunning { // Done is about to be closed; no round closes over those who are left
			changed = nil
		} else if p, err := s.readPlaces(ctx, &m); err != nil { // a newer membership is on its way, or the job has ended
			soon = time.After(placesPause)
		} else if err := s.setMembership(m, p); err != nil {
			s.leave(node, err)
			return err
		} else {
			settling.of(m.Placement, m.Settle)
		}
		for again := false; !again; {
			select {
			case <-changed:
				again = true
			case <-soon:
				again = true
			case <-progress.C:
				node.Progress(s.Rounds(), 0)
			case <-sweep.C:
				s.pool.Sweep()
			case <-node.Done():
				if err := node.Err(); err != nil {
					return fmt.Errorf("server %d: %w", node.Rank(), err)
				}
				return nil
			case err := <-served:
				if err == nil {
					err = fmt.Errorf("server %d: its listener was closed", node.Rank())
				}
				s.leave(node, err)
				return err
			case <-ctx.Done():
				err := context.Cause(ctx)
				s.leave(node, err)
				return fmt.Errorf("server %d: %w", node.Rank(), err)
			}
		}
	}
}

// sweepEvery is how long memory is kept that nothing needs: that of shards which have moved to other servers, say.
const sweepEvery = 10 * time.Second

// placesPause is the time between two attempts to learn where shards are.
const placesPause = 20 * time.Millisecond

// leave tells the job that it loses this server, within a second.
func (s *Server) leave(node *cluster.Node, why error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := node.Leave(ctx, false, fmt.Sprintf("server %d ends: %v", node.Rank(), why)); err != nil {
		s.cfg.Logger.Warn("server: leave", "err", err)
	}
}

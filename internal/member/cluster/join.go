package cluster

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/internal/observe/telemetry"
	"github.com/paragon-train/paragon/internal/observe/trace"
	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// Join registers with the scheduler and returns when the job is complete: all its workers and
// servers have registered and the membership has its first generation. While it waits it logs whom
// for. With Config.Joining in a running job it returns at once, and the node is not yet a member.
func Join(ctx context.Context, cfg Config) (*Node, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.WithDefaults()
	if cfg.Role == Scheduler {
		return nil, errors.New("cluster: join: a scheduler does not join its job, it runs it")
	}
	if cfg.Role == Server && cfg.Addr == "" {
		return nil, errors.New("cluster: join: Addr is empty: a server listens first, see Listen")
	}
	if cfg.Recorder == nil {
		cfg.Recorder = new(telemetry.Recorder)
	}
	telemetry.CollectProcess(cfg.Recorder)
	tc := cfg.Transport(Scheduler)
	tc.Connections = 1
	tc.Network = redialingNetwork{tc.Network}
	if cfg.Trace == nil {
		cfg.Trace = trace.NewRecorder(telemetry.NewClock())
	}
	n := newNode(cfg, transport.NewClient(cfg.Scheduler, tc))
	// The scheduler has the same StartTimeout and a better error: leave it time to answer.
	ctx, cancel := context.WithTimeoutCause(ctx, cfg.StartTimeout+askTimeout, fmt.Errorf("StartTimeout of %v", cfg.StartTimeout))
	defer cancel()
	if err := n.start(ctx); err != nil {
		if n.id != 0 && n.Err() == nil {
			// The others need not wait until this node's lease expires.
			gone, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			n.ask(gone, 0, &wire.Leave{Node: uint64(n.id), OK: true}, &wire.Ack{}, false)
		}
		n.Close()
		return nil, err
	}
	return n, nil
}

// start registers the node, begins its goroutines, and waits until the job runs.
func (n *Node) start(ctx context.Context) error {
	var nonce [8]byte
	// It never fails.
	rand.Read(nonce[:])
	n.nonce = binary.LittleEndian.Uint64(nonce[:])
	within, cancel := context.WithTimeout(ctx, n.cfg.StartTimeout)
	reg, err := n.register(within)
	cancel()
	if err != nil {
		return fmt.Errorf("cluster: register with the scheduler: %w", err)
	}
	n.id = NodeID(reg.Node)
	n.serveMetrics()
	heartbeat := time.Duration(reg.HeartbeatMillis) * time.Millisecond
	lease := time.Duration(reg.LeaseMillis) * time.Millisecond
	if heartbeat <= 0 || lease < heartbeat {
		return fmt.Errorf("cluster: the scheduler sent heartbeat %v and lease %v, want both above zero and the lease at least the heartbeat", heartbeat, lease)
	}
	n.wg.Go(func() { n.heartbeats(heartbeat, lease) })
	n.wg.Go(n.watch)
	n.wg.Go(n.trace)
	for {
		changed := n.Changed()
		m := n.Membership()
		if m.Phase == wire.PhaseRunning {
			if n.Joining() {
				n.cfg.Logger.Info("joining", "role", n.cfg.Role, "node", n.id, "workers", m.Workers, "servers", m.Servers, joblog.NodeJoined.With("generation", m.Generation, "member", false))
				return nil
			}
			n.cfg.Logger.Info("joined", "role", n.cfg.Role, "rank", n.Rank(), "node", n.id, "workers", m.Workers, "servers", m.Servers,
				joblog.NodeJoined.With("generation", m.Generation, "member", true))
			return nil
		}
		select {
		case <-changed:
		case <-n.life.done:
			return n.life.over()
		case <-ctx.Done():
			return fmt.Errorf("cluster: join: %w (%w): waiting for %s", ctx.Err(), context.Cause(ctx), waitingFor(n.Membership()))
		}
	}
}

// waitingFor names those whom the job waits for, as the scheduler does.
func waitingFor(m wire.Membership) string {
	if len(m.Waiting) == 0 {
		return "the scheduler"
	}
	return strings.Join(m.Waiting, ", ")
}

// register registers the node; with an ID it does so again.
func (n *Node) register(ctx context.Context) (*wire.Registered, error) {
	m := &wire.Register{
		Node: uint64(n.id), Role: uint8(n.cfg.Role), Rank: int32(n.cfg.Rank), Workers: uint32(n.cfg.NumWorkers), Servers: uint32(n.cfg.NumServers),
		PID: uint32(cmp.Or(n.cfg.PID, os.Getpid())), Process: n.cfg.Process, Nonce: n.nonce, Joining: n.cfg.Joining, Job: n.cfg.Job, Host: n.cfg.Host, Addr: n.cfg.Addr,
	}
	var reg wire.Registered
	_, err := n.ask(ctx, 0, m, &reg, true)
	return &reg, err
}

// watch follows the membership until the node ends.
func (n *Node) watch() {
	pause, away := firstPause, false
	for n.life.ctx.Err() == nil {
		m := n.Membership()
		wait := watchWait
		if m.Phase < wire.PhaseRunning {
			wait = logEvery
		}
		var got wire.Membership
		asked := time.Now()
		ctx, cancel := context.WithTimeout(n.life.ctx, wait+5*time.Second)
		_, err := n.sched.Call(ctx, &wire.Watch{Node: uint64(n.id), Revision: m.Revision, WaitMillis: uint32(wait / time.Millisecond)}, &got, nil)
		cancel()
		n.recordAnswer(asked, err)
		if err != nil {
			if time.Since(asked) > time.Second {
				// The request was held: the scheduler was reachable.
				pause = firstPause
			}
			n.pause(&pause)
			away = away || errors.Is(err, transport.ErrConnection)
			continue
		}
		if away {
			// It may be a restarted scheduler, which knows this node from the journal
			// only.
			asked := time.Now()
			again, cancel := context.WithTimeout(n.life.ctx, askTimeout)
			_, err := n.register(again)
			cancel()
			n.recordAnswer(asked, err)
			away = err != nil
		}
		pause = firstPause
		n.update(&got)
		// Not the first time: other nodes register within moments.
		if got.Phase == wire.PhaseForming && m.Revision != 0 {
			n.cfg.Logger.Info("waiting for "+waitingFor(got), joblog.Waiting.With("waiting_for", waitingFor(got)))
		}
	}
}

package cluster

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/paragon-train/paragon/internal/transport"
	"github.com/paragon-train/paragon/internal/wire"
)

const (
	sayAfter  = 5 * time.Second // waits longer than this are told, again and again
	watchWait = 20 * time.Second
	firstWait = 100 * time.Millisecond // between attempts to reach the scheduler, doubled up to lastWait
	lastWait  = 2 * time.Second
)

// Join registers with the scheduler and returns when the job is complete: all its workers and servers are there and the
// membership has its first generation. While it waits it logs whom for. A node that joins a job which runs does not wait, and
// does not count yet.
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
	tc := cfg.Transport(Scheduler)
	tc.Connections = 1
	n := &Node{
		cfg: cfg, sched: transport.NewClient(cfg.Scheduler, tc),
		done: make(chan struct{}), changed: make(chan struct{}), callers: make(map[string]*caller), heard: time.Now(),
	}
	n.standing.Store(&standing{})
	n.ctx, n.cancel = context.WithCancel(context.Background())
	// The scheduler, once found, gives up at its own StartTimeout and knows more to say about it.
	ctx, cancel := context.WithTimeoutCause(ctx, cfg.StartTimeout+askTimeout, fmt.Errorf("StartTimeout of %v", cfg.StartTimeout))
	defer cancel()
	if err := n.start(ctx); err != nil {
		if n.id != 0 && n.Err() == nil { // the others need not wait for this node's lease to end
			gone, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			n.ask(gone, 0, &wire.Leave{Node: uint64(n.id), OK: true}, &wire.Ack{}, false)
		}
		n.Close()
		return nil, err
	}
	return n, nil
}

func (n *Node) start(ctx context.Context) error {
	var nonce [8]byte
	rand.Read(nonce[:]) // never fails
	n.nonce = binary.LittleEndian.Uint64(nonce[:])
	within, cancel := context.WithTimeout(ctx, n.cfg.StartTimeout)
	reg, err := n.register(within)
	cancel()
	if err != nil {
		return fmt.Errorf("cluster: register with the scheduler: %w", err)
	}
	n.id = NodeID(reg.Node)
	heartbeat := time.Duration(reg.HeartbeatMillis) * time.Millisecond
	lease := time.Duration(reg.LeaseMillis) * time.Millisecond
	if heartbeat <= 0 || lease < heartbeat {
		return fmt.Errorf("cluster: the scheduler gave times that cannot be: heartbeat %v, lease %v", heartbeat, lease)
	}
	n.wg.Go(func() { n.heartbeats(heartbeat, lease) })
	n.wg.Go(n.watch)
	for {
		changed := n.Changed()
		m := n.Membership()
		if m.Phase == wire.PhaseRunning {
			if n.Joining() {
				n.cfg.Logger.Info("joining", "role", n.cfg.Role, "node", n.id, "workers", m.Workers, "servers", m.Servers)
				return nil
			}
			n.cfg.Logger.Info("joined", "role", n.cfg.Role, "rank", n.Rank(), "node", n.id, "workers", m.Workers, "servers", m.Servers)
			return nil
		}
		select {
		case <-changed:
		case <-n.done:
			return n.why()
		case <-ctx.Done():
			return fmt.Errorf("cluster: join: %w (%w): waiting for %s", ctx.Err(), context.Cause(ctx), waitingFor(n.Membership()))
		}
	}
}

func waitingFor(m wire.Membership) string {
	if len(m.Waiting) == 0 {
		return "the scheduler's word"
	}
	return strings.Join(m.Waiting, ", ")
}

// register tells the scheduler of the node, again if it has an ID.
func (n *Node) register(ctx context.Context) (*wire.Registered, error) {
	m := &wire.Register{
		Node: uint64(n.id), Role: uint8(n.cfg.Role), Rank: int32(n.cfg.Rank), Workers: uint32(n.cfg.NumWorkers), Servers: uint32(n.cfg.NumServers),
		PID: uint32(os.Getpid()), Process: n.cfg.Process, Nonce: n.nonce, Joining: n.cfg.Joining, Job: n.cfg.Job, Host: n.cfg.Host, Addr: n.cfg.Addr,
	}
	var reg wire.Registered
	_, err := n.ask(ctx, 0, m, &reg, true)
	return &reg, err
}

// heartbeats keeps the lease until the node ends.
func (n *Node) heartbeats(every, lease time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		n.mu.Lock()
		m := &wire.Heartbeat{Node: uint64(n.id), Generation: n.membership.Generation, Step: n.step, Epoch: n.epoch}
		n.mu.Unlock()
		ctx, cancel := context.WithTimeout(n.ctx, max(every, lease/3))
		asked := time.Now()
		_, err := n.sched.Call(ctx, m, &wire.Ack{}, nil)
		cancel()
		n.hear(asked, err)
		select {
		case <-tick.C:
		case <-n.ctx.Done():
			return
		}
	}
}

// watch follows the membership until the node ends.
func (n *Node) watch() {
	pause, away := firstWait, false
	for n.ctx.Err() == nil {
		m := n.Membership()
		wait := watchWait
		if m.Phase < wire.PhaseRunning {
			wait = sayAfter
		}
		var got wire.Membership
		asked := time.Now()
		ctx, cancel := context.WithTimeout(n.ctx, wait+5*time.Second)
		_, err := n.sched.Call(ctx, &wire.Watch{Node: uint64(n.id), Revision: m.Revision, WaitMillis: uint32(wait / time.Millisecond)}, &got, nil)
		cancel()
		n.hear(asked, err)
		if err != nil {
			if time.Since(asked) > time.Second { // there was a connection
				pause = firstWait
			}
			n.pause(&pause)
			away = away || errors.Is(err, transport.ErrConnection)
			continue
		}
		if away { // it may be another process, which knows the node from what the first one kept
			asked := time.Now()
			again, cancel := context.WithTimeout(n.ctx, askTimeout)
			_, err := n.register(again)
			cancel()
			n.hear(asked, err)
			away = err != nil
		}
		pause = firstWait
		n.update(&got)
		if got.Phase == wire.PhaseForming && m.Revision != 0 { // not at once: the others need a moment
			n.cfg.Logger.Info("waiting for " + waitingFor(got))
		}
	}
}

// pause waits before another attempt, longer each time.
func (n *Node) pause(d *time.Duration) {
	t := time.NewTimer(*d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-n.ctx.Done():
	}
	*d = min(2**d, lastWait)
}

// hear judges how a call to the scheduler ended that was made at a time. A call that was under way when this process was
// stopped fails when it goes on: only one that was made while nothing was heard tells that the scheduler is out of reach, and the next one
// may bring its word that this node is lost.
func (n *Node) hear(asked time.Time, err error) {
	if n.ctx.Err() != nil {
		return
	}
	var refusal *transport.Refusal
	n.mu.Lock()
	if err == nil || errors.As(err, &refusal) {
		n.heard = time.Now()
	}
	silent, before := time.Since(n.heard), asked.Sub(n.heard)
	say := silent >= sayAfter && time.Since(n.said) >= sayAfter
	if say {
		n.said = time.Now()
	}
	running := n.membership.Phase == wire.PhaseRunning
	n.mu.Unlock()
	if say && running {
		n.cfg.Logger.Info(fmt.Sprintf("waiting for the scheduler at %s (%d s of at most %v); training goes on meanwhile",
			n.cfg.Scheduler, int(silent.Seconds()), n.cfg.SchedulerTimeout), "err", err)
	}
	switch {
	case refusal != nil && refusal.Code == wire.CodeUnknownNode:
		n.end(&LostError{refusal.Text})
	case errors.Is(err, transport.ErrAuth):
		n.end(fmt.Errorf("cluster: %w", err))
	case silent > n.cfg.SchedulerTimeout && before > n.cfg.SchedulerTimeout/2:
		n.end(fmt.Errorf("cluster: %w: %s not heard of for %v: %w", ErrScheduler, n.cfg.Scheduler, silent.Round(time.Second), err))
	}
}

package cluster

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"time"

	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/internal/observe/telemetry"
	"github.com/paragon-train/paragon/internal/observe/trace"
	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
)

const (
	logEvery     = 5 * time.Second        // time between log lines about one wait, and before the first
	watchWait    = 20 * time.Second       // how long the scheduler holds a Watch without news; a repeat costs one small frame
	firstPause   = 100 * time.Millisecond // between attempts to reach the scheduler, doubled up to longestPause
	longestPause = 2 * time.Second        // a restarted scheduler is found this soon, and many nodes do not flood it
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
	n := &Node{
		cfg: cfg, clock: cfg.Trace.Clock(), windows: newWindows(), sched: transport.NewClient(cfg.Scheduler, tc),
		done: make(chan struct{}), traced: make(chan struct{}), changed: make(chan struct{}), stopping: make(chan struct{}), callers: make(map[string]*caller), lastHeard: time.Now(),
	}
	n.position.Store(&position{})
	n.ctx, n.cancel = context.WithCancel(context.Background())
	// The scheduler has the same StartTimeout and a better error: leave it time to answer.
	ctx, cancel := context.WithTimeoutCause(ctx, cfg.StartTimeout+askTimeout, fmt.Errorf("StartTimeout of %v", cfg.StartTimeout))
	defer cancel()
	if err := n.start(ctx); err != nil {
		if n.id != 0 && n.Err() == nil { // so that the others need not wait until this node's lease expires
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
		case <-n.done:
			return n.endError()
		case <-ctx.Done():
			return fmt.Errorf("cluster: join: %w (%w): waiting for %s", ctx.Err(), context.Cause(ctx), waitingFor(n.Membership()))
		}
	}
}

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
		PID: uint32(os.Getpid()), Process: n.cfg.Process, Nonce: n.nonce, Joining: n.cfg.Joining, Job: n.cfg.Job, Host: n.cfg.Host, Addr: n.cfg.Addr,
	}
	var reg wire.Registered
	_, err := n.ask(ctx, 0, m, &reg, true)
	return &reg, err
}

// heartbeats renews the lease until the node ends.
func (n *Node) heartbeats(every, lease time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		n.mu.Lock()
		m := &wire.Heartbeat{Node: uint64(n.id), Generation: n.membership.Generation, Step: n.step, Epoch: n.epoch, Adaptation: n.adaptation}
		n.mu.Unlock()
		m.Record = n.record()
		m.Call, m.WaitsFor, m.WaitsMillis = n.longestWait()
		ctx, cancel := context.WithTimeout(n.ctx, max(every, lease/3))
		asked := time.Now()
		m.Sent = n.clock.Now()
		var beat wire.Beat
		_, err := n.sched.Call(ctx, m, &beat, nil)
		answered := n.clock.Now()
		cancel()
		if err == nil {
			n.beat(&beat, m.Sent, answered)
		}
		n.recordAnswer(asked, err)
		select {
		case <-tick.C:
		case <-n.ctx.Done():
			return
		}
	}
}

// longestWait is what the function of ReportWaits says, within the limits of its message.
func (n *Node) longestWait() (call, whom string, millis uint32) {
	n.mu.Lock()
	longest := n.waits
	n.mu.Unlock()
	if longest == nil {
		return "", "", 0
	}
	call, whom, waited := longest()
	return shorten(call, wire.MaxWaitText), shorten(whom, wire.MaxWaitText), uint32(min(max(waited.Milliseconds(), 0), math.MaxUint32))
}

// shorten cuts a text to so many bytes of valid UTF-8.
func shorten(text string, most int) string {
	if len(text) > most {
		text = text[:most]
	}
	return strings.ToValidUTF8(text, "")
}

// record is what the process measures of itself now, encoded.
func (n *Node) record() []byte {
	r := n.cfg.Recorder.Record()
	return r.Append(nil)
}

// beat takes note of an answered heartbeat.
func (n *Node) beat(b *wire.Beat, sent, answered int64) {
	n.clock.Beat(b.Incarnation, sent, answered, b.At)
	offset, bound, _ := n.clock.Offset()
	r := n.cfg.Recorder
	r.Set(telemetry.ClockOffset, offset.Seconds())
	r.Set(telemetry.ClockBound, bound.Seconds())
	r.Set(telemetry.HeartbeatTrip, time.Duration(answered-sent).Seconds())
	n.windows.put(b.Window)
}

// A record always fits its messages.
const _ = uint(wire.MaxRecord - telemetry.MaxRecord)

// watch follows the membership until the node ends.
func (n *Node) watch() {
	pause, away := firstPause, false
	for n.ctx.Err() == nil {
		m := n.Membership()
		wait := watchWait
		if m.Phase < wire.PhaseRunning {
			wait = logEvery
		}
		var got wire.Membership
		asked := time.Now()
		ctx, cancel := context.WithTimeout(n.ctx, wait+5*time.Second)
		_, err := n.sched.Call(ctx, &wire.Watch{Node: uint64(n.id), Revision: m.Revision, WaitMillis: uint32(wait / time.Millisecond)}, &got, nil)
		cancel()
		n.recordAnswer(asked, err)
		if err != nil {
			if time.Since(asked) > time.Second { // the request was held: the scheduler was reachable
				pause = firstPause
			}
			n.pause(&pause)
			away = away || errors.Is(err, transport.ErrConnection)
			continue
		}
		if away { // it may be a restarted scheduler, which knows this node from the journal only
			asked := time.Now()
			again, cancel := context.WithTimeout(n.ctx, askTimeout)
			_, err := n.register(again)
			cancel()
			n.recordAnswer(asked, err)
			away = err != nil
		}
		pause = firstPause
		n.update(&got)
		if got.Phase == wire.PhaseForming && m.Revision != 0 { // not the first time: other nodes register within moments
			n.cfg.Logger.Info("waiting for "+waitingFor(got), joblog.Waiting.With("waiting_for", waitingFor(got)))
		}
	}
}

// pause waits before the next attempt, longer each time.
func (n *Node) pause(d *time.Duration) {
	t := time.NewTimer(*d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-n.ctx.Done():
	}
	*d = min(2**d, longestPause)
}

// recordAnswer records the result of a call to the scheduler that began at a time, and ends the
// node if the scheduler says that it is lost or is unreachable for too long. When this process is
// stopped and continued, a call that was under way fails. So the scheduler counts as unreachable
// only after a call that began while it had been silent for a while; the first call after the stop
// may bring the news that this node is lost.
func (n *Node) recordAnswer(asked time.Time, err error) {
	if n.ctx.Err() != nil {
		return
	}
	var refusal *transport.Refusal
	n.mu.Lock()
	if err == nil || errors.As(err, &refusal) {
		n.lastHeard = time.Now()
	}
	silent, before := time.Since(n.lastHeard), asked.Sub(n.lastHeard)
	say := silent >= logEvery && time.Since(n.lastLogged) >= logEvery
	if say {
		n.lastLogged = time.Now()
	}
	running := n.membership.Phase == wire.PhaseRunning
	n.mu.Unlock()
	if say && running {
		n.cfg.Logger.Info(fmt.Sprintf("waiting for the scheduler at %s (%d s of at most %v); training goes on meanwhile",
			n.cfg.Scheduler, int(silent.Seconds()), n.cfg.SchedulerTimeout), "err", err, joblog.SchedulerUnreachable.With("silent", silent))
	}
	switch {
	case refusal != nil && refusal.Code == wire.CodeUnknownNode:
		n.end(&LostError{refusal.Text})
	case errors.Is(err, transport.ErrAuth):
		n.end(fmt.Errorf("cluster: %w", err))
	case silent > n.cfg.SchedulerTimeout && before > n.cfg.SchedulerTimeout/2:
		n.end(fmt.Errorf("cluster: %w: %s did not answer for %v: %w", ErrScheduler, n.cfg.Scheduler, silent.Round(time.Second), err))
	}
}

package kvstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/observe/telemetry"
	"github.com/paragon-train/paragon/internal/store/hostsum"
	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/optim"
)

// HostSums says whether the workers of one host add their gradients up through shared memory before
// one push leaves the host.
type HostSums string

// The settings of WithHostSums.
const (
	HostSumsAuto HostSums = "auto" // for shards whose server is on another host
	HostSumsOn   HostSums = "on"   // for all shards, also small ones: for tests and measurements
	HostSumsOff  HostSums = "off"
)

// A hostMember is a member of a job that knows the workers of its host, such as *cluster.Node.
type hostMember interface {
	member
	Changed() <-chan struct{}
	Worker(node cluster.NodeID) (transport.Caller, error)
}

var _ hostMember = (*cluster.Node)(nil)

// A hostSummer is a store's part in sums within its host: it serves the shards that this worker
// leads and finds the leaders of the others.
type hostSummer struct {
	s      *store
	node   hostMember
	all    bool // HostSumsOn
	sums   *hostsum.Server
	server *transport.Server
	stop   chan struct{}
	work   sync.WaitGroup
	host   atomic.Pointer[hostView]
	ctx    context.Context // ends with close
	cancel context.CancelFunc

	departures departures

	mu          sync.Mutex           // guards the rest
	keys        map[uint64]*key      // those that were initialised, by ID
	unreachable map[uint64]time.Time // by node: when it is asked again
}

// A hostView is the part of a membership that sums within this host need.
type hostView struct {
	generation uint64
	group      []uint64 // the nodes that take part, in rank order; fewer than two: none
	names      []string // theirs
	away       []bool   // by server: it is on another host
}

// A hostListener is where a worker takes the gradients of its host.
type hostListener struct {
	net.Listener
	node      hostMember
	transport transport.Config
	mode      HostSums
}

func (l *hostListener) close() {
	if l != nil {
		l.Close()
	}
}

// startHostSums takes part in sums within the host.
func (s *store) startHostSums(l *hostListener) *hostSummer {
	h := &hostSummer{s: s, node: l.node, all: l.mode == HostSumsOn, stop: make(chan struct{}), keys: map[uint64]*key{}, unreachable: map[uint64]time.Time{}}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	h.sums = hostsum.New(hostsum.Config{Length: h.length, Forward: h.forward, AnyOrder: s.anyOrder, Wait: s.noteEvery * 9 / 10, Logger: s.logger})
	h.server = transport.NewServer(l, h.sums, l.transport)
	h.update()
	h.work.Go(h.follow)
	h.work.Go(func() {
		if err := h.server.Serve(); err != nil {
			s.logger.Warn("kvstore: host sums: other workers of this host can no longer reach this one", "err", err)
		}
	})
	return h
}

// follow keeps the view up to date.
func (h *hostSummer) follow() {
	for {
		changed := h.node.Changed()
		h.update()
		select {
		case <-changed:
		case <-h.node.Done():
			return
		case <-h.stop:
			return
		}
	}
}

func (h *hostSummer) update() {
	m, own := h.node.Membership(), uint64(h.node.ID())
	v := &hostView{generation: m.Generation}
	var group []*wire.Member
	name := ""
	for _, g := range wire.HostGroups(m.Nodes) {
		for _, x := range g {
			if x.Node == own {
				group, name = g, x.Host
			}
		}
	}
	for _, x := range group {
		v.group = append(v.group, x.Node)
		v.names = append(v.names, fmt.Sprintf("worker %d on %s (node %d, pid %d)", x.Rank, x.Host, x.Node, x.PID))
	}
	for i := range m.Nodes {
		if n := &m.Nodes[i]; n.Role == wire.RoleServer && n.Rank >= 0 {
			for len(v.away) <= int(n.Rank) {
				v.away = append(v.away, false)
			}
			v.away[n.Rank] = n.Host != name
		}
	}
	h.sums.SetMembership(m.Generation, own, group)
	if old := h.host.Swap(v); old != nil && old.generation != v.generation {
		h.tellAll()
	}
}

// close ends this worker's part. No call of the store is under way.
func (h *hostSummer) close() {
	if h == nil {
		return
	}
	close(h.stop)
	h.departures.end()
	h.cancel()
	h.sums.Close()
	if sent, dissolved := h.sums.Counts(); sent+dissolved > 0 {
		h.s.logger.Debug("kvstore: host sums made by this worker", "sent", sent, "dissolved", dissolved)
	}
	h.server.Close()
	h.work.Wait()
}

// track makes a key's shards known, so that this worker can add them up.
func (h *hostSummer) track(k *key) {
	if h == nil || k.form != wire.FormDense {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.keys[k.id] = k
}

func (h *hostSummer) key(id uint64, shard uint32) *key {
	h.mu.Lock()
	defer h.mu.Unlock()
	if k := h.keys[id]; k != nil && int(shard) < len(k.shards) {
		return k
	}
	return nil
}

func (h *hostSummer) length(id uint64, shard uint32) (uint64, bool) {
	k := h.key(id, shard)
	if k == nil {
		return 0, false
	}
	return k.shards[shard].Length, true
}

// forward sends a sum of the host's gradients to the shard's server.
func (h *hostSummer) forward(ctx context.Context, f *hostsum.Forwarded) error {
	k := h.key(f.Push.Key, f.Push.Shard)
	if k == nil {
		return fmt.Errorf("%w: key %d shard %d", ErrUnknownKey, f.Push.Key, f.Push.Shard)
	}
	o := newOp(h.s, "push-pull of this host's sum", k.name, 1)
	o.background, o.round = true, f.Push.Round
	c := &o.calls[0]
	c.key, c.shard = k, int(f.Push.Shard)
	c.request, c.origin, c.answer, c.dst, c.payload = &f.Push, &f.Push.Origin, &f.Value, f.Into, [][]byte{f.Payload}
	f.Explain(o.waiting)
	err := o.run(ctx)
	f.Got = c.got
	return err
}

// sumsWithinHost reports whether a push-pull of a key may be added up within the host, wherever its
// shards' servers are.
func (s *store) sumsWithinHost(c Compression, step wire.Step) bool {
	if s.hostSums == nil || s.guard != nil || c.codec() > wire.CodecBFloat16 || s.eachDevice {
		return false
	}
	if v := s.hostSums.host.Load(); len(v.group) < 2 {
		return false
	}
	return !step.Measure || !s.preconditions()
}

// preconditions reports whether the optimizer is one for which the servers divide gradients by
// their second moment before they take norms.
func (s *store) preconditions() bool {
	s.mu.Lock()
	cfg := s.optimizer
	s.mu.Unlock()
	if cfg == nil {
		return false
	}
	o, err := optim.New(*cfg)
	return err == nil && o.HasSecondMoment()
}

// sumsShard reports whether a shard's gradients are added up within the host.
func (h *hostSummer) sumsShard(k *key, i int) bool {
	if h.all {
		return k.shards[i].Length > 0
	}
	v, server := h.host.Load(), int(k.servers[i].Load())
	return k.size > smallValues && server < len(v.away) && v.away[server] // smaller keys share messages
}

// group decides whether the push goes to the worker of this host that adds up its shard. Where it
// does not, although others' may, that worker is told.
func (c *call) group(summed bool, round uint64) {
	h := c.op.s.hostSums
	if c.summed = false; h == nil || !h.sumsShard(c.key, c.shard) {
		return
	}
	if c.summed = summed; summed {
		h.departures.remove(*c.origin)
	} else {
		h.leave(*c.origin, round)
	}
}

// askLeader sends the push to the worker of this host that adds up its shard, and waits for the new
// value. It returns false if this worker is to push for itself.
func (c *call) askLeader() bool {
	o, h := c.op, c.op.s.hostSums
	defer c.leader.Store(nil)
	pause, began := firstPause, time.Now()
	for patience := h.s.noteEvery; ; {
		err := c.tryLeader()
		if err == nil {
			return true
		}
		var refusal *transport.Refusal
		switch {
		case o.Err() != nil:
			return false
		case !errors.As(err, &refusal):
			// The leader is gone: soon there is another membership. Or this process
			// cannot connect to it.
			patience = min(patience, leaderGrace)
			if time.Since(began) > patience {
				h.giveUp(c, err)
			}
		case refusal.Code == wire.CodeTimeout: // the sum is at the server, or a worker is late
			began, pause = time.Now(), firstPause
			o.noteAttempt(c, err)
		case refusal.Code == wire.CodeStaleGeneration || refusal.Code == wire.CodeBusy:
		default:
			if time.Since(began) > h.s.noteEvery/2 { // it says whom it has waited for
				o.noteAttempt(c, err)
			}
			return false
		}
		if time.Since(began) > patience {
			return false
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-o.Done():
			t.Stop()
			return false
		}
		pause = min(2*pause, longestPause)
	}
}

const (
	// leaderGrace is how long a worker tries to reach a leader whose connection is broken. A
	// worker that dies is out of the membership after milliseconds where launch sees it end. It
	// is also how long an answer may take beyond the time that the leader was asked to wait.
	leaderGrace = time.Second
	// leaderPause is how long a leader that cannot be reached is not asked again.
	leaderPause = 30 * time.Second
)

// errNoLeader: the shard is not added up within the host.
var errNoLeader = &transport.Refusal{Code: wire.CodePushAlone, Text: "no worker of this host adds up the shard"}

// tryLeader makes one attempt.
func (c *call) tryLeader() (err error) {
	h, push := c.op.s.hostSums, c.request.(*wire.Push)
	v := h.host.Load()
	if len(v.group) < 2 {
		return errNoLeader
	}
	c.stamp()
	at := hostsum.Leader(push.Key, push.Shard, len(v.group))
	leader := v.group[at]
	c.leader.Store(&v.names[at])
	if leader == push.Node {
		c.got, err = h.sums.Call(c.op, push, c.answer.(*wire.Value), c.dst, c.payload...)
		return err
	}
	if h.isUnreachable(leader) {
		return errNoLeader
	}
	peer, err := h.node.Worker(cluster.NodeID(leader))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.op, time.Duration(push.WaitMillis)*time.Millisecond+leaderGrace)
	defer cancel()
	c.got, err = peer.Call(ctx, push, c.answer, c.dst, c.payload...)
	return err
}

func (h *hostSummer) isUnreachable(node uint64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	until, ok := h.unreachable[node]
	if ok && time.Now().After(until) {
		delete(h.unreachable, node)
		return false
	}
	return ok
}

// giveUp asks the call's leader no more for a while, because of an error.
func (h *hostSummer) giveUp(c *call, err error) {
	v, push := h.host.Load(), c.request.(*wire.Push)
	if len(v.group) < 2 || v.generation != push.Generation {
		return // it was not a leader of this membership
	}
	leader := v.group[hostsum.Leader(push.Key, push.Shard, len(v.group))]
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ok := h.unreachable[leader]; !ok {
		h.unreachable[leader] = time.Now().Add(leaderPause)
		h.s.logger.Warn("kvstore: host sums: cannot reach the worker that sums for this host; this worker pushes to the servers itself for now", "node", leader, "for", leaderPause, "err", err)
	}
}

// listenForHost opens the listener of this worker's address for its host, and puts the address into
// the Config; nil: this worker takes no part.
func (set *settings) listenForHost(kind string, cfg *cluster.Config) (*hostListener, error) {
	mode, err := set.hostSumsMode()
	if err != nil || mode == HostSumsOff || kind == "dist_async" {
		return nil, err
	}
	c := cfg.WithDefaults()
	if mode == HostSumsAuto && c.Network != transport.Auto {
		return nil, nil
	}
	id := cluster.HostID()
	if id == "" {
		return nil, nil
	}
	ln, err := c.Network.Listen("127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for sums within this host: %w; PARAGON_HOST_SUMS=off turns host sums off", err)
	}
	if mode == HostSumsOn {
		id += "+on" // workers with auto would be waited for in vain
	}
	cfg.Addr = ln.Addr().String() + "#" + id
	if cfg.Recorder == nil {
		cfg.Recorder = new(telemetry.Recorder) // before there are connections
	}
	c.Recorder = cfg.Recorder
	return &hostListener{Listener: ln, transport: c.Transport(cluster.Worker), mode: mode}, nil
}

// hostSumsMode returns the setting of WithHostSums, or of the environment.
func (set *settings) hostSumsMode() (HostSums, error) {
	mode, from := set.hostSums, "WithHostSums"
	if mode == "" {
		mode, from = HostSums(set.getenv("PARAGON_HOST_SUMS")), "PARAGON_HOST_SUMS"
	}
	switch mode {
	case "":
		return HostSumsAuto, nil
	case HostSumsAuto, HostSumsOn, HostSumsOff:
		return mode, nil
	}
	return "", fmt.Errorf("%s: got %q, want auto, on or off", from, mode)
}

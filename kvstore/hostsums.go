package kvstore

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/observe/telemetry"
	"github.com/paragon-train/paragon/internal/store/hostsum"
	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A hostSums is a worker's part in sums within its host: it serves the shards that this worker
// leads, and knows the leaders of the others.
//
// A nil hostSums is that of a worker that takes no part.
type hostSums struct {
	node      hostMember
	sums      *hostsum.Server
	server    *transport.Server
	leaders   leaders
	bypasses  bypasses
	forwarder func(k *key, shard int) *op
	logger    *slog.Logger
	stop      chan struct{}
	work      sync.WaitGroup
	// ctx ends with close.
	ctx    context.Context
	cancel context.CancelFunc

	// mu guards keys.
	mu sync.Mutex
	// keys are those that were placed, by ID.
	keys map[uint64]*key
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

// startHostSums takes part in sums within the host. forwarder returns the op, with one call, that
// brings a sum to the server of a shard.
func startHostSums(l *hostListener, cfg *settings, forwarder func(k *key, shard int) *op) *hostSums {
	h := &hostSums{node: l.node, forwarder: forwarder, logger: cfg.logger, stop: make(chan struct{}), keys: map[uint64]*key{}}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	h.sums = hostsum.New(hostsum.Config{Length: h.length, Forward: h.forward, AnyOrder: cfg.anyOrder, Wait: cfg.noteEvery * 9 / 10, Logger: cfg.logger})
	h.server = transport.NewServer(l, h.sums, l.transport)
	h.leaders = leaders{node: l.node, own: h.sums, all: l.mode == HostSumsOn, logger: cfg.logger, unreachable: map[uint64]time.Time{}}
	h.bypasses = bypasses{tell: h.leaders.tell, over: h.ctx, patience: cfg.noteEvery}
	h.update()
	h.work.Go(h.followMembership)
	h.work.Go(func() {
		if err := h.server.Serve(); err != nil {
			cfg.logger.Warn("kvstore: host sums: other workers of this host can no longer reach this one", "err", err)
		}
	})
	return h
}

// followMembership keeps the leaders up to date with the membership.
func (h *hostSums) followMembership() {
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

// update takes over the newest membership. The leaders of a new one hear of all bypasses.
func (h *hostSums) update() {
	m, own := h.node.Membership(), uint64(h.node.ID())
	v, group := viewOf(&m, own)
	h.sums.SetMembership(m.Generation, own, group)
	if old := h.leaders.host.Swap(v); old != nil && old.generation != v.generation {
		h.bypasses.tellAll()
	}
}

// close ends this worker's part. No call of the store is under way.
func (h *hostSums) close() {
	if h == nil {
		return
	}
	close(h.stop)
	h.bypasses.end()
	h.cancel()
	h.sums.Close()
	if sent, dissolved := h.sums.Counts(); sent+dissolved > 0 {
		h.logger.Debug("kvstore: host sums made by this worker", "sent", sent, "dissolved", dissolved)
	}
	h.server.Close()
	h.work.Wait()
	h.bypasses.wait()
}

// track makes a key's shards known, so that this worker can sum them up.
func (h *hostSums) track(k *key) {
	if h == nil || !k.dense() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.keys[k.id] = k
}

func (h *hostSums) key(id uint64, shard uint32) *key {
	h.mu.Lock()
	defer h.mu.Unlock()
	if k := h.keys[id]; k != nil && int(shard) < len(k.shards) {
		return k
	}
	return nil
}

// length is the number of values of a shard, for package hostsum.
func (h *hostSums) length(id uint64, shard uint32) (uint64, bool) {
	k := h.key(id, shard)
	if k == nil {
		return 0, false
	}
	return k.shards[shard].Length, true
}

// forward sends a sum of the host's gradients to the shard's server.
func (h *hostSums) forward(ctx context.Context, f *hostsum.Forwarded) error {
	k := h.key(f.Push.Key, f.Push.Shard)
	if k == nil {
		return fmt.Errorf("%w: key %d shard %d", ErrUnknownKey, f.Push.Key, f.Push.Shard)
	}
	o := h.forwarder(k, int(f.Push.Shard))
	o.round = f.Push.Round
	c := &o.calls[0]
	c.request, c.origin, c.answer, c.dst, c.payload = &f.Push, &f.Push.Origin, &f.Value, f.Into, [][]byte{f.Payload}
	f.Explain(o.waiting)
	err := o.run(ctx)
	f.Got = c.got
	return err
}

// route reports whether a push of shard i goes to the worker of this host that sums it up. summed
// says whether a push of the key may. Where this one does not, although others' may, that worker is
// told.
func (h *hostSums) route(k *key, i int, o *wire.Origin, summed bool, round uint64) bool {
	if h == nil || !h.leaders.sumsShard(k, i) {
		return false
	}
	if summed {
		h.bypasses.remove(*o)
	} else if !h.leaders.none() {
		h.bypasses.add(*o, round)
	}
	return summed
}

// moved tells the leaders of shards that are at other servers now that this worker may not come to
// the round: until all of this host's workers know where a shard is, some may go to the leader and
// some not. Small keys, of which there may be very many, have no leaders: see leaders.sumsShard.
func (h *hostSums) moved(k *key, shards []int) {
	if h == nil || !k.dense() || !h.leaders.sumsKey(k) || h.leaders.none() {
		return
	}
	seq, round := k.pushes.next()
	for _, i := range shards {
		h.bypasses.once(&wire.Push{Origin: k.origin(i, seq+1), Round: round})
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
		// Workers with auto, which would be waited for in vain, are on another host then.
		id += "+on"
	}
	cfg.Addr = ln.Addr().String() + "#" + id
	if cfg.Recorder == nil {
		// Connections, which the Recorder counts, come before the node makes one.
		cfg.Recorder = new(telemetry.Recorder)
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

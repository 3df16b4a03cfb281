package kvstore

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/store/hostsum"
	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/kvstore/internal/attempt"
)

// A hostView is the part of a membership that sums within this host need.
type hostView struct {
	generation uint64
	// group are the nodes of this host that take part, in rank order, and names are theirs.
	// Fewer than two: nothing is summed up.
	group []uint64
	names []string
	// away says of each server, by rank, that it is on another host.
	away []bool
}

// viewOf returns a node's view of a membership, and the members of its group.
func viewOf(m *wire.Membership, own uint64) (v *hostView, group []*wire.Member) {
	v = &hostView{generation: m.Generation}
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
	return v, group
}

// leader returns the leader of a shard; false if there is none.
func (v *hostView) leader(key uint64, shard uint32) (at int, ok bool) {
	if len(v.group) < 2 {
		return 0, false
	}
	return hostsum.Leader(key, shard, len(v.group)), true
}

// A leaders knows which worker of this host leads a shard, that is adds it up for the host, and how
// to reach it. It is a hostRoute. The leader that acts for all workers of the job is another one:
// membership.leader.
//
// Which worker leads follows from the membership alone, so workers that have heard of the same one
// agree. One that has not is refused by generation, and asks again.
type leaders struct {
	node hostMember
	// own answers for the shards that this worker leads.
	own *hostsum.Server
	// all says that all shards are summed up: HostSumsOn.
	all    bool
	logger *slog.Logger
	host   atomic.Pointer[hostView]

	// mu guards unreachable.
	mu sync.Mutex
	// unreachable says when a leader that could not be reached is asked again, by node.
	unreachable map[uint64]time.Time
}

var _ hostRoute = (*leaders)(nil)

// leaderPause is how long a leader that cannot be reached is not asked again.
const leaderPause = 30 * time.Second

// errNoLeader: the shard is not summed up within the host.
var errNoLeader = &transport.Refusal{Code: wire.CodePushAlone, Text: "no worker of this host adds up the shard"}

// none reports whether this worker is alone on its host.
func (l *leaders) none() bool { return len(l.host.Load().group) < 2 }

// sumsKey reports whether any shard of a key may be summed up within the host. Smaller keys share
// messages.
func (l *leaders) sumsKey(k *key) bool { return l.all || k.size > smallValues }

// sumsShard reports whether a shard's gradients are summed up within the host.
func (l *leaders) sumsShard(k *key, i int) bool {
	if l.all {
		return k.shards[i].Length > 0
	}
	v, server := l.host.Load(), int(k.servers[i].Load())
	return l.sumsKey(k) && server < len(v.away) && v.away[server]
}

// ask makes one attempt: see hostRoute.
func (l *leaders) ask(ctx context.Context, push *wire.Push, answer *wire.Value, asked *atomic.Pointer[string], dst []byte, payload [][]byte) ([]byte, error) {
	v := l.host.Load()
	at, ok := v.leader(push.Key, push.Shard)
	if !ok {
		return nil, errNoLeader
	}
	stamp(l.node, &push.Origin)
	asked.Store(&v.names[at])
	if v.group[at] == push.Node {
		return l.own.Call(ctx, push, answer, dst, payload...)
	}
	peer, err := l.reach(v.group[at])
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(push.WaitMillis)*time.Millisecond+attempt.LeaderGrace)
	defer cancel()
	return peer.Call(ctx, push, answer, dst, payload...)
}

// tell makes one attempt to tell a shard's leader that this worker pushes for itself.
func (l *leaders) tell(ctx context.Context, p *wire.Push) error {
	request := *p
	stamp(l.node, &request.Origin)
	v := l.host.Load()
	at, ok := v.leader(p.Key, p.Shard)
	if !ok {
		return errNoLeader
	}
	if v.group[at] == request.Node {
		return l.own.PushAlone(&request)
	}
	peer, err := l.reach(v.group[at])
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, attempt.LeaderGrace)
	defer cancel()
	_, err = peer.Call(ctx, &request, &wire.Ack{}, nil)
	return err
}

// reach returns the connection to another worker of this host.
func (l *leaders) reach(node uint64) (transport.Caller, error) {
	if l.isUnreachable(node) {
		return nil, errNoLeader
	}
	return l.node.Worker(cluster.NodeID(node))
}

func (l *leaders) isUnreachable(node uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	until, ok := l.unreachable[node]
	if ok && time.Now().After(until) {
		delete(l.unreachable, node)
		return false
	}
	return ok
}

// lose makes this worker ask a push's leader no more for a while: see hostRoute.
func (l *leaders) lose(push *wire.Push, err error) {
	v := l.host.Load()
	at, ok := v.leader(push.Key, push.Shard)
	if !ok || v.generation != push.Generation {
		// It led in another membership.
		return
	}
	leader := v.group[at]
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.unreachable[leader]; !ok {
		l.unreachable[leader] = time.Now().Add(leaderPause)
		l.logger.Warn("kvstore: host sums: cannot reach the worker that sums for this host; this worker pushes to the servers itself for now", "node", leader, "for", leaderPause, "err", err)
	}
}

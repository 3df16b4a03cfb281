package server_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"testing"

	"github.com/paragon-train/paragon/cluster"
	"github.com/paragon-train/paragon/internal/faultnet"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/kvstore/kvstoretest"
	"github.com/paragon-train/paragon/server"
	"github.com/paragon-train/paragon/transport"
	"github.com/paragon-train/paragon/wire"
)

// The suite of all stores, over servers and connections in memory, with a plan made here in place of a scheduler.
func TestStoresOverServersPassTheSuite(t *testing.T) {
	kvstoretest.Run(t, kvstoretest.Harness{
		Open:    func(t testing.TB, c kvstoretest.Config) []kvstore.Store { return newJob(t, c).stores },
		Workers: []int{3},
		Servers: []int{2, 3},
	})
}

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// A job is what workers share.
type job struct {
	members wire.Membership
	stores  []kvstore.Store

	mu    sync.Mutex // guards the rest
	plans map[string]wire.KeyPlan
	names map[string]*meeting
}

// A meeting is a barrier or a signal.
type meeting struct {
	came int
	over chan struct{}
}

func newJob(t testing.TB, c kvstoretest.Config) *job {
	return newJobOver(t, faultnet.New(1), c)
}

// newJobOver starts a job over a network in memory, or over TCP if net is nil.
func newJobOver(t testing.TB, net *faultnet.Network, c kvstoretest.Config) *job {
	host := func(name string) transport.Network {
		if net == nil {
			return transport.TCP
		}
		return net.Host(name)
	}
	servers := c.Servers
	if servers == 0 {
		servers = 2
	}
	j := &job{plans: map[string]wire.KeyPlan{}, names: map[string]*meeting{}}
	j.members = wire.Membership{Generation: 1, Revision: 1, Phase: wire.PhaseRunning, Workers: uint32(c.Workers), Servers: uint32(servers)}
	for rank := range c.Workers {
		j.members.Nodes = append(j.members.Nodes, wire.Member{Node: uint64(100 + rank), Role: wire.RoleWorker, Rank: int32(rank), Host: fmt.Sprint("w", rank)})
	}
	var addrs []string
	for rank := range servers {
		ln, err := host(fmt.Sprint("s", rank)).Listen(listenAt(net))
		if err != nil {
			t.Fatal(err)
		}
		s := server.New(server.Config{Logger: quiet})
		if err := s.SetMembership(j.members); err != nil {
			t.Fatal(err)
		}
		ts := transport.NewServer(ln, s, transport.Config{Logger: quiet})
		var serving sync.WaitGroup
		serving.Go(func() { ts.Serve() })
		t.Cleanup(func() { ts.Close(); serving.Wait() })
		addrs = append(addrs, ln.Addr().String())
	}
	for rank := range c.Workers {
		n := &node{job: j, rank: rank, done: make(chan struct{})}
		for _, addr := range addrs {
			n.clients = append(n.clients, transport.NewClient(addr, transport.Config{Network: host(fmt.Sprint("w", rank)), Logger: quiet}))
		}
		kv, err := kvstore.Create(t.Context(), c.Type, append(c.Options, kvstore.WithNode(n), kvstore.WithLogger(quiet))...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { kv.Close() })
		j.stores = append(j.stores, kv)
	}
	return j
}

func listenAt(net *faultnet.Network) string {
	if net == nil {
		return "127.0.0.1:0"
	}
	return ":0"
}

// plan cuts keys of more than a hundred values or ten rows over all servers.
func (j *job) plan(d wire.Declare) (wire.KeyPlan, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	p, ok := j.plans[d.Name]
	if !ok {
		p = wire.KeyPlan{Key: uint64(len(j.plans)), Form: d.Form, Rule: d.Rule, Size: d.Size, RowLen: d.RowLen, Name: d.Name}
		n := uint64(j.members.Servers)
		first := uint32(p.Key % n)
		switch {
		case d.Form == wire.FormRows && d.Size/d.RowLen > 10:
			for i := range n {
				p.Shards = append(p.Shards, wire.ShardPlace{Server: uint32(i), Offset: i, Length: (d.Size/d.RowLen + n - 1 - i) / n * d.RowLen})
			}
		case d.Form == wire.FormDense && d.Size > 100 && !d.Whole:
			for i := range n {
				from, to := d.Size*i/n, d.Size*(i+1)/n
				p.Shards = append(p.Shards, wire.ShardPlace{Server: uint32(i), Offset: from, Length: to - from})
			}
		default:
			p.Shards = []wire.ShardPlace{{Server: first, Length: d.Size}}
		}
		j.plans[d.Name] = p
	}
	if p.Form != d.Form || p.Rule != d.Rule || p.Size != d.Size || p.RowLen != d.RowLen {
		return p, &transport.Refusal{Code: wire.CodeSize, Generation: 1, Text: fmt.Sprintf("key %q: got %d values, want %d", d.Name, d.Size, p.Size)}
	}
	return p, nil
}

func (j *job) meet(name string) *meeting {
	m := j.names[name]
	if m == nil {
		m = &meeting{over: make(chan struct{})}
		j.names[name] = m
	}
	return m
}

// come adds one to a meeting, which is over when want have come.
func (j *job) come(name string, want int) *meeting {
	j.mu.Lock()
	defer j.mu.Unlock()
	m := j.meet(name)
	if m.came++; m.came == want {
		close(m.over)
	}
	return m
}

// A node is a worker's place in a job without a scheduler.
type node struct {
	job     *job
	rank    int
	clients []*transport.Client
	once    sync.Once
	done    chan struct{}
}

func (n *node) ID() cluster.NodeID             { return cluster.NodeID(100 + n.rank) }
func (n *node) Rank() cluster.Rank             { return cluster.Rank(n.rank) }
func (n *node) Generation() cluster.Generation { return 1 }
func (n *node) Membership() wire.Membership    { return n.job.members }
func (n *node) Done() <-chan struct{}          { return n.done }
func (n *node) Err() error                     { return nil }

func (n *node) Server(rank cluster.Rank) (transport.Caller, string, error) {
	return n.clients[rank], n.clients[rank].Addr(), nil
}

func (n *node) Declare(_ context.Context, d wire.Declare) (wire.KeyPlan, error) { return n.job.plan(d) }

func (n *node) Barrier(ctx context.Context, name string) error {
	return wait(ctx, n.job.come("barrier "+name, int(n.job.members.Workers)))
}

func (n *node) Signal(_ context.Context, name string) error {
	n.job.come(name, 1)
	return nil
}

func (n *node) Await(ctx context.Context, name string) error {
	n.job.mu.Lock()
	m := n.job.meet(name)
	n.job.mu.Unlock()
	return wait(ctx, m)
}

func wait(ctx context.Context, m *meeting) error {
	select {
	case <-m.over:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (n *node) Leave(context.Context, bool, string) error { return n.Close() }

func (n *node) Close() error {
	n.once.Do(func() {
		close(n.done)
		for _, c := range n.clients {
			c.Close()
		}
	})
	return nil
}

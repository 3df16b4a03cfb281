package kvstore_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"testing"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/observe/telemetry"
	"github.com/paragon-train/paragon/internal/observe/trace"
	"github.com/paragon-train/paragon/internal/store/shardserver"
	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/internal/testing/faultnet"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/kvstore/kvstoretest"
)

// A memoryScheduler is a scheduler in this process: workers reach it by direct calls. The servers
// are real ones on a network.
type memoryScheduler struct {
	sliceSize uint64
	servers   []*shardserver.Server
	addrs     []string

	mu         sync.Mutex // guards the rest
	generation uint64
	workers    map[int]bool // living, by rank
	plans      map[string]wire.KeyPlan
	load       []uint64
	barriers   map[string]*barrierState
	signals    map[string]chan struct{}
	values     map[string]string // of signals
	clients    []*transport.Client
}

type barrierState struct {
	came map[int]bool
	open chan struct{}
}

// newMemoryScheduler starts a server on each of the networks, and returns the scheduler of a job
// with this many workers.
func newMemoryScheduler(t testing.TB, workers int, networks []transport.Network) *memoryScheduler {
	b := &memoryScheduler{sliceSize: 20_000, generation: 1, workers: map[int]bool{}, plans: map[string]wire.KeyPlan{},
		load: make([]uint64, len(networks)), barriers: map[string]*barrierState{}, signals: map[string]chan struct{}{}, values: map[string]string{}}
	for r := range workers {
		b.workers[r] = true
	}
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	for _, network := range networks {
		ln, err := network.Listen("127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		s := shardserver.New(shardserver.Config{Logger: quiet})
		ts := transport.NewServer(ln, s, transport.Config{Network: network, Logger: quiet})
		var wg sync.WaitGroup
		wg.Go(func() { ts.Serve() })
		t.Cleanup(func() {
			s.Fail("the test is over")
			ts.Close()
			wg.Wait()
		})
		b.servers = append(b.servers, s)
		b.addrs = append(b.addrs, ln.Addr().String())
	}
	if err := b.tellServers(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, c := range b.clients {
			c.Close()
		}
	})
	return b
}

// membership is called with the mutex held.
func (b *memoryScheduler) membership() wire.Membership {
	m := wire.Membership{Generation: b.generation, Phase: wire.PhaseRunning, Workers: uint32(len(b.workers)), Servers: uint32(len(b.addrs))}
	for r := range b.workers {
		m.Nodes = append(m.Nodes, wire.Member{Node: uint64(r + 10), Role: wire.RoleWorker, Rank: int32(r), Host: fmt.Sprintf("w%d", r)})
	}
	slices.SortFunc(m.Nodes, func(x, y wire.Member) int { return int(x.Rank - y.Rank) })
	return m
}

func (b *memoryScheduler) tellServers() error {
	for _, s := range b.servers {
		if err := s.SetMembership(b.membership()); err != nil {
			return err
		}
	}
	return nil
}

// node returns a worker's place in the job, on a network of its own.
func (b *memoryScheduler) node(rank int, network transport.Network) *memoryNode {
	n := &memoryNode{b: b, rank: rank, done: make(chan struct{})}
	for _, addr := range b.addrs {
		c := transport.NewClient(addr, transport.Config{Network: network, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
		n.clients = append(n.clients, c)
		b.clients = append(b.clients, c)
	}
	return n
}

// place cuts a key into slices and deals them to the servers in turn.
func (b *memoryScheduler) place(d wire.Declare) wire.KeyPlan {
	p := wire.KeyPlan{Key: uint64(len(b.plans)), Form: d.Form, Rule: d.Rule, Size: d.Size, RowLen: d.RowLen, Name: d.Name}
	next := func(length uint64) uint32 {
		k := 0
		for i, n := range b.load {
			if n < b.load[k] {
				k = i
			}
		}
		b.load[k] += length
		return uint32(k)
	}
	if d.Form == wire.FormRows {
		n := min(uint64(len(b.addrs)), d.Size/d.RowLen)
		for i := range n {
			length := (d.Size/d.RowLen + n - 1 - i) / n * d.RowLen
			p.Shards = append(p.Shards, wire.ShardPlace{Server: next(length), Offset: i, Length: length})
		}
		return p
	}
	if d.Form == wire.FormOpen {
		for i := range 3 * len(b.addrs) {
			p.Shards = append(p.Shards, wire.ShardPlace{Server: uint32(i % len(b.addrs)), Offset: uint64(i)})
		}
		return p
	}
	slice := b.sliceSize
	if d.Whole {
		slice = d.Size
	}
	for from := uint64(0); from < d.Size; from += slice {
		length := min(slice, d.Size-from)
		p.Shards = append(p.Shards, wire.ShardPlace{Server: next(length), Offset: from, Length: length})
	}
	return p
}

type memoryNode struct {
	b       *memoryScheduler
	rank    int
	clients []*transport.Client

	once sync.Once
	done chan struct{}
	err  error
}

func (n *memoryNode) ID() cluster.NodeID { return cluster.NodeID(n.rank + 10) }
func (n *memoryNode) Rank() cluster.Rank { return cluster.Rank(n.rank) }

func (n *memoryNode) Generation() cluster.Generation {
	n.b.mu.Lock()
	defer n.b.mu.Unlock()
	return cluster.Generation(n.b.generation)
}

func (n *memoryNode) Membership() wire.Membership {
	n.b.mu.Lock()
	defer n.b.mu.Unlock()
	return n.b.membership()
}

func (n *memoryNode) Server(rank cluster.Rank) (transport.Caller, string, error) {
	if int(rank) >= len(n.clients) {
		return nil, "", fmt.Errorf("there is no server %d", rank)
	}
	return n.clients[rank], n.clients[rank].Addr(), nil
}

func (n *memoryNode) Declare(ctx context.Context, d wire.Declare) (wire.KeyPlan, error) {
	n.b.mu.Lock()
	defer n.b.mu.Unlock()
	p, ok := n.b.plans[d.Name]
	if !ok {
		p = n.b.place(d)
		n.b.plans[d.Name] = p
	}
	if p.Form != d.Form || p.Rule != d.Rule || p.Size != d.Size || p.RowLen != d.RowLen {
		return p, transport.Refuse(wire.CodeSize, n.b.generation, "key %q: got %d values, want %d", d.Name, d.Size, p.Size)
	}
	return p, ctx.Err()
}

func (n *memoryNode) Recorder() *telemetry.Recorder { return nil }
func (n *memoryNode) Trace() *trace.Recorder        { return nil }

func (n *memoryNode) Barrier(ctx context.Context, name string) error {
	n.b.mu.Lock()
	m := n.b.barriers[name]
	if m == nil {
		m = &barrierState{came: map[int]bool{}, open: make(chan struct{})}
		n.b.barriers[name] = m
	}
	m.came[n.rank] = true
	if len(m.came) == len(n.b.workers) {
		close(m.open)
	}
	n.b.mu.Unlock()
	return wait(ctx, m.open)
}

func wait(ctx context.Context, c chan struct{}) error {
	select {
	case <-c:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (n *memoryNode) signal(name string) chan struct{} {
	n.b.mu.Lock()
	defer n.b.mu.Unlock()
	c := n.b.signals[name]
	if c == nil {
		c = make(chan struct{})
		n.b.signals[name] = c
	}
	return c
}

func (n *memoryNode) Signal(ctx context.Context, name, value string) error {
	c := n.signal(name)
	n.b.mu.Lock()
	defer n.b.mu.Unlock()
	n.b.values[name] = value
	close(c)
	return nil
}

func (n *memoryNode) Await(ctx context.Context, name string) (string, error) {
	if err := wait(ctx, n.signal(name)); err != nil {
		return "", err
	}
	n.b.mu.Lock()
	defer n.b.mu.Unlock()
	return n.b.values[name], nil
}

func (n *memoryNode) Done() <-chan struct{} { return n.done }
func (n *memoryNode) Err() error            { return n.err }

// end ends the job for this node.
func (n *memoryNode) end(err error) {
	n.once.Do(func() {
		n.err = err
		close(n.done)
	})
}

func (n *memoryNode) Leave(ctx context.Context, ok bool, reason string) error {
	n.b.mu.Lock()
	if len(n.b.workers) > 1 {
		delete(n.b.workers, n.rank)
		n.b.generation++
		n.b.tellServers()
	}
	n.b.mu.Unlock()
	return n.Close()
}

func (n *memoryNode) Close() error {
	n.end(nil)
	return nil
}

// openOn opens a job on a memoryScheduler; network gives each host its view: server 0 is "s0",
// worker 0 "w0".
func openOn(t testing.TB, c kvstoretest.Config, network func(host string) transport.Network) []kvstore.Store {
	t.Helper()
	if c.Servers == 0 {
		c.Servers = 2
	}
	var networks []transport.Network
	for i := range c.Servers {
		networks = append(networks, network(fmt.Sprintf("s%d", i)))
	}
	b := newMemoryScheduler(t, c.Workers, networks)
	stores := make([]kvstore.Store, c.Workers)
	for r := range stores {
		opts := append([]kvstore.Option{kvstore.WithMember(b.node(r, network(fmt.Sprintf("w%d", r))))}, c.Options...)
		kv, err := kvstore.Create(context.Background(), c.Type, opts...)
		if err != nil {
			t.Fatal(err)
		}
		stores[r] = kv
		t.Cleanup(func() {
			if err := kv.Close(); err != nil {
				t.Errorf("close rank %d: %v", r, err)
			}
		})
	}
	return stores
}

// Where shards are cut makes no difference: here keys are cut into many, on a memoryScheduler that
// places them in turn.
func TestStoresWithManyShards(t *testing.T) {
	kvstoretest.Run(t, kvstoretest.Harness{
		Open: func(t testing.TB, c kvstoretest.Config) []kvstore.Store {
			n := faultnet.New(1)
			return openOn(t, c, func(host string) transport.Network { return n.Host(host) })
		},
		Workers: []int{2},
		Types:   []string{"dist_sync"},
		Servers: []int{3, 2},
		Brief:   brief(),
		Edge:    smallEdge(),
	})
}

package kvstore

import (
	"context"
	"fmt"
	"sync"

	"github.com/paragon-train/paragon/internal/cluster"
	"github.com/paragon-train/paragon/internal/shardserver"
	"github.com/paragon-train/paragon/internal/transport"
	"github.com/paragon-train/paragon/internal/wire"
)

// alone is the member of a job of one worker within this process. Its one server has the request handler of a job's servers, to which the
// store's requests go as they are.
type alone struct {
	server *shardserver.Local

	mu    sync.Mutex // guards the rest
	plans map[string]wire.KeyPlan
	table map[string]string // what the keys of rows were declared with
	ended bool
	done  chan struct{}
}

const (
	aloneNode       = 1
	aloneGeneration = 1
	aloneAddr       = "this process"
)

func newAlone() *alone {
	return &alone{server: shardserver.NewLocal(aloneAddr, aloneMembership()), plans: map[string]wire.KeyPlan{}, table: map[string]string{}, done: make(chan struct{})}
}

func (a *alone) ID() cluster.NodeID             { return aloneNode }
func (a *alone) Rank() cluster.Rank             { return 0 }
func (a *alone) Generation() cluster.Generation { return aloneGeneration }
func (a *alone) Err() error                     { return nil }
func (a *alone) Done() <-chan struct{}          { return a.done }

func (a *alone) Membership() wire.Membership { return aloneMembership() }

func aloneMembership() wire.Membership {
	return wire.Membership{Generation: aloneGeneration, Revision: 1, Phase: wire.PhaseRunning, Workers: 1, Servers: 1,
		Nodes: []wire.Member{{Node: aloneNode, Role: wire.RoleWorker}}}
}

func (a *alone) Server(cluster.Rank) (transport.Caller, string, error) {
	return a.server, aloneAddr, nil
}

// Declare makes a plan of one shard.
func (a *alone) Declare(_ context.Context, d wire.Declare) (wire.KeyPlan, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p, ok := a.plans[d.Name]
	if !ok {
		p = wire.KeyPlan{Key: uint64(len(a.plans)), Form: d.Form, Rule: d.Rule, Size: d.Size, RowLen: d.RowLen, Name: d.Name,
			Shards: []wire.ShardPlace{{Length: d.Size}}}
		a.plans[d.Name], a.table[d.Name] = p, d.Table
	}
	if have := a.table[d.Name]; have != d.Table {
		return wire.KeyPlan{}, &transport.Refusal{Addr: aloneAddr, Code: wire.CodeConflict, Generation: aloneGeneration,
			Text: fmt.Sprintf("got the table %q, want %q", d.Table, have)}
	}
	if p.Form != d.Form || p.Rule != d.Rule || p.Size != d.Size || p.RowLen != d.RowLen {
		return wire.KeyPlan{}, &transport.Refusal{Addr: aloneAddr, Code: wire.CodeSize, Generation: aloneGeneration,
			Text: "got " + describe(d.Form, d.Rule, d.Size, d.RowLen) + ", want " + describe(p.Form, p.Rule, p.Size, p.RowLen)}
	}
	return p, nil
}

// There is nobody to wait for.

func (a *alone) Barrier(ctx context.Context, _ string) error { return ctx.Err() }
func (a *alone) Signal(ctx context.Context, _ string) error  { return ctx.Err() }
func (a *alone) Await(ctx context.Context, _ string) error   { return ctx.Err() }

func (a *alone) Leave(context.Context, bool, string) error { return a.Close() }

func (a *alone) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.ended {
		a.ended = true
		close(a.done)
	}
	return nil
}

package kvstore

import (
	"context"
	"fmt"
	"sync"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/observe/telemetry"
	"github.com/paragon-train/paragon/internal/observe/trace"
	"github.com/paragon-train/paragon/internal/store/shardserver"
	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// inProcess is the member of a job of one worker within this process. Its one server runs the same
// request handler as a job's servers; the store's requests reach it as direct calls.
type inProcess struct {
	server   *shardserver.Local
	recorder telemetry.Recorder
	trace    *trace.Recorder

	// mu guards the fields below.
	mu    sync.Mutex
	plans map[string]wire.KeyPlan
	// table has by key name the table that a key of rows was declared with.
	table map[string]string
	ended bool
	done  chan struct{}
}

const (
	inProcessNode       = 1
	inProcessGeneration = 1
	inProcessAddr       = "this process"
)

func newInProcess() *inProcess {
	a := &inProcess{plans: map[string]wire.KeyPlan{}, table: map[string]string{}, done: make(chan struct{}), trace: trace.NewRecorder(telemetry.NewClock())}
	a.server = shardserver.NewLocal(inProcessAddr, inProcessMembership(), &a.recorder, a.trace)
	telemetry.CollectProcess(&a.recorder)
	return a
}

func (a *inProcess) Recorder() *telemetry.Recorder  { return &a.recorder }
func (a *inProcess) Trace() *trace.Recorder         { return a.trace }
func (a *inProcess) ID() cluster.NodeID             { return inProcessNode }
func (a *inProcess) Rank() cluster.Rank             { return 0 }
func (a *inProcess) Generation() cluster.Generation { return inProcessGeneration }
func (a *inProcess) Err() error                     { return nil }
func (a *inProcess) Done() <-chan struct{}          { return a.done }

func (a *inProcess) Membership() wire.Membership { return inProcessMembership() }

func inProcessMembership() wire.Membership {
	return wire.Membership{Generation: inProcessGeneration, Revision: 1, Phase: wire.PhaseRunning, Workers: 1, Servers: 1,
		Nodes: []wire.Member{{Node: inProcessNode, Role: wire.RoleWorker}}}
}

func (a *inProcess) Server(cluster.Rank) (transport.Caller, string, error) {
	return a.server, inProcessAddr, nil
}

// Declare makes a plan of one shard.
func (a *inProcess) Declare(_ context.Context, d wire.Declare) (wire.KeyPlan, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p, ok := a.plans[d.Name]
	if !ok {
		p = wire.KeyPlan{Key: uint64(len(a.plans)), Form: d.Form, Rule: d.Rule, Size: d.Size, RowLen: d.RowLen, Name: d.Name,
			Shards: []wire.ShardPlace{{Length: d.Size}}}
		a.plans[d.Name], a.table[d.Name] = p, d.Table
	}
	if have := a.table[d.Name]; have != d.Table {
		return wire.KeyPlan{}, &transport.Refusal{Addr: inProcessAddr, Code: wire.CodeConflict, Generation: inProcessGeneration,
			Text: fmt.Sprintf("got the table %q, want %q", d.Table, have)}
	}
	if p.Form != d.Form || p.Rule != d.Rule || p.Size != d.Size || p.RowLen != d.RowLen {
		return wire.KeyPlan{}, &transport.Refusal{Addr: inProcessAddr, Code: wire.CodeSize, Generation: inProcessGeneration,
			Text: "got " + describe(d.Form, d.Rule, d.Size, d.RowLen) + ", want " + describe(p.Form, p.Rule, p.Size, p.RowLen)}
	}
	return p, nil
}

// There are no other workers to wait for.

func (a *inProcess) Barrier(ctx context.Context, _ string) error   { return ctx.Err() }
func (a *inProcess) Signal(ctx context.Context, _, _ string) error { return ctx.Err() }
func (a *inProcess) Await(ctx context.Context, _ string) (string, error) {
	return "", ctx.Err()
}

func (a *inProcess) Leave(context.Context, bool, string) error { return a.Close() }

func (a *inProcess) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.ended {
		a.ended = true
		close(a.done)
	}
	return nil
}

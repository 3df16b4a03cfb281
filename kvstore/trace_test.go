package kvstore_test

import (
	"context"
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/observe/telemetry"
	"github.com/paragon-train/paragon/internal/observe/trace"
	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/testing/alloctest"
	"github.com/paragon-train/paragon/internal/testing/jobtest"
	"github.com/paragon-train/paragon/kvstore"
)

// tracing are the captures of a job's processes, whose clock is one.
type tracing struct {
	mu       sync.Mutex // guards captures
	captures map[cluster.Place]*trace.Capture
	names    map[cluster.Place]*trace.Recorder
	clock    *telemetry.Clock
}

func newTracing() *tracing {
	return &tracing{captures: map[cluster.Place]*trace.Capture{}, names: map[cluster.Place]*trace.Recorder{}, clock: telemetry.NewClock()}
}

func (x *tracing) recorder(role cluster.Role, rank int) *trace.Recorder {
	x.mu.Lock()
	defer x.mu.Unlock()
	at, r := cluster.Place{Role: role, Rank: cluster.Rank(rank)}, trace.NewRecorder(x.clock)
	x.names[at], x.captures[at] = r, r.Open(trace.Config{})
	return r
}

// A contribution is what a push, its round and the pulls of its value have in common.
type contribution struct {
	key    string
	shard  uint32
	round  uint64
	server cluster.Rank
	worker uint64 // node; 0: of all workers
}

// byContribution sorts the spans of some kind of a role's processes.
func (x *tracing) byContribution(t *testing.T, role cluster.Role, kind trace.Kind, nodes map[cluster.Rank]uint64, each bool) map[contribution][]trace.Span {
	t.Helper()
	found := map[contribution][]trace.Span{}
	for at, c := range x.captures {
		if at.Role != role {
			continue
		}
		if c.Dropped() != 0 {
			t.Errorf("%v: %d spans were dropped", at, c.Dropped())
		}
		for _, s := range c.Take().Spans {
			if s.Kind != kind {
				continue
			}
			if s.End < s.Begin {
				t.Errorf("%v: %v ends before it begins: %+v", at, kind, s)
			}
			id := contribution{key: x.names[at].Names()[s.Key], shard: s.Shard, round: s.Round}
			if role == cluster.Server {
				id.server, id.worker = at.Rank, s.Peer
			} else {
				id.server, id.worker = cluster.Rank(s.Peer), nodes[at.Rank]
			}
			if !each {
				id.worker = 0
			}
			found[id] = append(found[id], s)
		}
	}
	return found
}

// Each push is received by its server, is in a round there, and each pull is of a round: identified
// by key, shard, round and worker alone.
func TestSpansOfWorkersAndServersFindEachOther(t *testing.T) {
	const workers, servers, steps, large = 2, 2, 3, 70_000 // large: in two shards
	for _, tc := range []struct {
		kind    string
		network transport.Network
	}{{"dist_sync", transport.TCP}, {"dist_async", transport.TCP}, {"dist_sync", transport.Auto}, {"dist_sync", nil}} {
		t.Run(fmt.Sprintf("%s/%T", tc.kind, tc.network), func(t *testing.T) {
			x := newTracing()
			job := jobtest.New(t, jobtest.Config{Workers: workers, Servers: servers, TCP: tc.network != nil, Over: tc.network, Trace: x.recorder})
			stores := job.Stores(t, tc.kind)
			nodes := map[cluster.Rank]uint64{}
			var running sync.WaitGroup
			for rank, kv := range stores {
				nodes[cluster.Rank(rank)] = uint64(kv.NodeID())
				running.Go(func() {
					ctx := t.Context()
					sizes := map[string]int{"small": 100, "large": large}
					for _, key := range []string{"small", "large"} {
						must(kv.Init(ctx, key, make([]float32, sizes[key])))
					}
					must(kv.InitRows(ctx, "rows", 100, 4, nil))
					must(kv.Barrier(ctx))
					rows, values := []int64{7, 3, 99, 60}, make([]float32, 16)
					for range steps {
						var keys sync.WaitGroup
						for key, n := range sizes {
							keys.Go(func() { must(kv.PushPull(ctx, key, [][]float32{make([]float32, n)}, [][]float32{make([]float32, n)})) })
						}
						keys.Wait()
						must(kv.Push(ctx, "small", make([]float32, 100)))
						must(kv.Pull(ctx, "small", make([]float32, 100)))
						must(kv.PushRows(ctx, "rows", rows, values))
						must(kv.PullRows(ctx, "rows", rows, values))
						kv.ReportStep(kvstore.StepReport{LearningRate: math.NaN()})
					}
					must(kv.Barrier(ctx))
				})
			}
			running.Wait()
			for _, kv := range stores {
				must(kv.Close())
			}
			job.Wait(time.Minute)
			async := tc.kind == "dist_async"
			pushes := x.byContribution(t, cluster.Worker, trace.Push, nodes, true)
			received := x.byContribution(t, cluster.Server, trace.Receive, nodes, true)
			pulls := x.byContribution(t, cluster.Worker, trace.Pull, nodes, true)
			answers := x.byContribution(t, cluster.Server, trace.Answer, nodes, true)
			rounds := x.byContribution(t, cluster.Server, trace.Round, nodes, async)
			updates := x.byContribution(t, cluster.Server, trace.Apply, nodes, async)
			shards := map[string]map[uint32]bool{}
			for id := range pushes {
				if shards[id.key] == nil {
					shards[id.key] = map[uint32]bool{}
				}
				shards[id.key][id.shard] = true
			}
			if len(shards["large"]) < 2 || len(shards["rows"]) < 2 || len(shards["small"]) < 1 {
				t.Errorf("got spans of the shards %v, want several of large and rows", shards)
			}
			want := workers * steps * (2*len(shards["small"]) + len(shards["large"]) + len(shards["rows"]))
			if len(pushes) != want || len(received) != want {
				t.Errorf("got %d pushes and %d received, want %d of each", len(pushes), len(received), want)
			}
			for id, spans := range pushes {
				if len(spans) != 1 || len(received[id]) != 1 {
					t.Fatalf("%+v: got %d pushes and %d received, want one of each", id, len(spans), len(received[id]))
				}
				push, receive := spans[0], received[id][0]
				if push.Bytes == 0 || push.Bytes != receive.Bytes {
					t.Errorf("%+v: pushed %d bytes, received %d, want the same", id, push.Bytes, receive.Bytes)
				}
				if receive.End < push.Begin {
					t.Errorf("%+v: received by %d, before it was pushed at %d", id, receive.End, push.Begin)
				}
				of := id
				if !async {
					of.worker = 0
				}
				if len(rounds[of]) != 1 || len(updates[of]) != 1 {
					t.Fatalf("%+v: got %d rounds and %d updates, want one of each", id, len(rounds[of]), len(updates[of]))
				}
				round, update := rounds[of][0], updates[of][0]
				if round.End < receive.End || update.Begin < round.Begin || update.End != round.End {
					t.Errorf("%+v: received %+v, round %+v, update %+v: want the round to end after it, with the update", id, receive, round, update)
				}
			}
			if n := len(rounds); !async && n != len(pushes)/workers || async && n != len(pushes) {
				t.Errorf("got %d rounds of %d pushes", n, len(pushes))
			}
			for id, spans := range pulls {
				if len(answers[id]) != len(spans) {
					t.Errorf("%+v: got %d pulls and %d answers, want as many", id, len(spans), len(answers[id]))
					continue
				}
				if id.round == 0 {
					continue // the first value
				}
				of := id
				if of.round--; !async {
					of.worker = 0
				}
				if len(rounds[of]) != 1 {
					t.Fatalf("%+v: got %d rounds that its value is of, want one", id, len(rounds[of]))
				}
				for i, s := range spans {
					if end := rounds[of][0].End; s.End < end || answers[id][i].Begin < end {
						t.Errorf("%+v: pulled until %d and answered from %d, want it after the round, at %d", id, s.End, answers[id][i].Begin, end)
					}
				}
			}
			if len(pulls) < want {
				t.Errorf("got %d pulls, want at least %d", len(pulls), want)
			}
		})
	}
}

// While spans are recorded, rounds take no memory either: neither on the worker nor on the server,
// which both are in this process.
func TestRecordedRoundsTakeNoMemory(t *testing.T) {
	for _, in := range []string{"process", "host"} {
		var kv kvstore.Store
		var err error
		x := newTracing()
		if in == "process" {
			if kv, err = kvstore.Create(t.Context(), "dist_sync", kvstore.WithEnv(nothing)); err != nil {
				t.Fatal(err)
			}
			defer kv.Close()
			x.captures[cluster.Place{}] = kv.(interface{ Trace() *trace.Recorder }).Trace().Open(trace.Config{})
		} else {
			c := quietJob(transport.TCP)
			c.Trace = x.recorder
			kv = jobtest.New(t, c).Stores(t, "dist_sync")[0]
		}
		ctx := context.Background()
		must(kv.InitRows(ctx, "rows", 5000, 16, nil))
		rows, values := []int64{7, 3, 99, 60}, make([]float32, 64)
		calls := map[string]func(){"push and pull of rows": func() { must(kv.PushRows(ctx, "rows", rows, values)); must(kv.PullRows(ctx, "rows", rows, values)) }}
		for key, n := range map[string]int{"small": 256, "large": 36_000} {
			must(kv.Init(ctx, key, make([]float32, n)))
			grads, outs := [][]float32{make([]float32, n)}, [][]float32{make([]float32, n)}
			calls["push-pull of "+key] = func() { must(kv.PushPull(ctx, key, grads, outs)); kv.ReportStep(kvstore.StepReport{}) }
			calls["push and pull of "+key] = func() { must(kv.Push(ctx, key, grads...)); must(kv.Pull(ctx, key, outs...)) }
		}
		recorded := func() (n int) {
			for at, c := range x.captures {
				if n += c.Len(); c.Dropped() > 0 {
					t.Errorf("in the %s: %v: %d spans were dropped, so their cost is not in the test", in, at, c.Dropped())
				}
			}
			return n
		}
		const rounds = 20
		for what, call := range calls {
			for range 40 { // all connections
				call()
			}
			before := recorded()
			if n := alloctest.PerRun(rounds, call); n != 0 {
				t.Errorf("in the %s: %s: got %v allocations a round, want none", in, what, n)
			}
			if n := recorded() - before; n < rounds*6 { // push, pull, receive, round, apply, answer
				t.Errorf("in the %s: %s: got %d spans of %d rounds, want at least 6 of each", in, what, n, rounds)
			}
		}
	}
}

// BenchmarkTrace is a push-pull with and without a Capture: the cost of spans.
//
//	go test -run xxx -bench Trace -benchmem ./kvstore
func BenchmarkTrace(b *testing.B) {
	for _, on := range []bool{false, true} {
		for _, n := range []int{256, 100_000} {
			b.Run(fmt.Sprintf("on=%v/floats=%d", on, n), func(b *testing.B) {
				kv, err := kvstore.Create(b.Context(), "dist_sync", kvstore.WithEnv(nothing))
				if err != nil {
					b.Fatal(err)
				}
				defer kv.Close()
				if on {
					defer kv.(interface{ Trace() *trace.Recorder }).Trace().Open(trace.Config{}).Close()
				}
				must(kv.Init(b.Context(), "w", make([]float32, n)))
				grads, outs := [][]float32{make([]float32, n)}, [][]float32{make([]float32, n)}
				b.ReportAllocs()
				for b.Loop() {
					must(kv.PushPull(b.Context(), "w", grads, outs))
				}
			})
		}
	}
}

package kvstore_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/testing/alloctest"
	"github.com/paragon-train/paragon/internal/testing/jobtest"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/optim"
)

// quietJob hardly has heartbeats: they take memory, and on a busy machine there is one in every few
// rounds.
func quietJob(network transport.Network) jobtest.Config {
	return jobtest.Config{TCP: true, Over: network, Heartbeat: 10 * time.Minute, Lease: 20 * time.Minute}
}

// Once their memory is there, rounds take none: neither on the worker nor on the server, which both
// are in this process.
func TestSteadyRemoteRoundsTakeNoMemory(t *testing.T) {
	for n, network := range []transport.Network{transport.TCP, transport.Unix, transport.Auto} {
		for i, c := range []kvstore.Compression{{}, {Type: "2bit"}, {Type: "fp16", Pull: "fp16"}, {Type: "topk", Ratio: 0.1, Pull: "bf16"}} {
			if n > 0 && i > 0 && i != n && os.Getenv("PARAGON_TEST_SLOW") == "" {
				continue // codes are the same over every network: all of them go over the first, and one over each of the others
			}
			kv := jobtest.New(t, quietJob(network)).Stores(t, "dist_sync")[0]
			ctx := context.Background()
			must(kv.SetCompression(ctx, c))
			for key, n := range map[string]int{"small": 256, "large": 36_000, "lent": 36_000} { // a large one's halves are beyond a connection's buffers, too
				must(kv.Init(ctx, key, make([]float32, n)))
				grads, outs := [][]float32{make([]float32, n)}, [][]float32{make([]float32, n)}
				if key == "lent" {
					grads[0], outs[0] = kvstore.Float32s(n), kvstore.Float32s(n)
				}
				for what, call := range map[string]func(){
					"push-pull":     func() { must(kv.PushPull(ctx, key, grads, outs)) },
					"push and pull": func() { must(kv.Push(ctx, key, grads...)); must(kv.Pull(ctx, key, outs...)) },
				} {
					for range 40 { // all connections
						call()
					}
					if n := alloctest.PerRun(20, call); n != 0 {
						t.Errorf("network %+v, compression %q: %s of %s: got %v allocations a round, want none", network, c.Type, what, key, n)
					}
				}
			}
		}
	}
}

// That holds for small keys that share messages, too.
func TestSteadyRoundsOfManyKeysTakeNoMemory(t *testing.T) {
	for _, network := range []transport.Network{transport.TCP, transport.Auto} {
		kv := jobtest.New(t, quietJob(network)).Stores(t, "dist_sync")[0]
		ctx := context.Background()
		var pushes, pushPulls []kvstore.Entry
		for i := range 20 {
			e := kvstore.Entry{Key: string(rune('A' + i)), Grads: [][]float32{make([]float32, 20*i+1)}}
			must(kv.Init(ctx, e.Key, e.Grads[0]))
			pushes = append(pushes, e)
			e.Outs = [][]float32{make([]float32, 20*i+1)}
			pushPulls = append(pushPulls, e)
		}
		for what, call := range map[string]func(){
			"PushMany":     func() { must(kv.PushMany(ctx, pushes)) },
			"PushPullMany": func() { must(kv.PushPullMany(ctx, pushPulls)) },
		} {
			for range 40 { // all connections
				call()
			}
			if n := alloctest.PerRun(20, call); n != 0 {
				t.Errorf("network %+v: %s of 20 keys: got %v allocations, want none", network, what, n)
			}
		}
	}
}

// That holds for rows too, few and many, by number and by ID.
func TestSteadyRemoteRoundsOfRowsTakeNoMemory(t *testing.T) {
	for _, network := range []transport.Network{transport.TCP, transport.Auto} {
		kv := jobtest.New(t, quietJob(network)).Stores(t, "dist_sync")[0]
		ctx := context.Background()
		must(kv.SetOptimizer(ctx, optim.Config{Name: "adagrad"}))
		for key, table := range map[string]kvstore.Table{"counted": {Rows: 5000, RowLen: 16}, "open": {RowLen: 16}} {
			must(kv.InitTable(ctx, key, table))
			for _, n := range []int{5, 1000} {
				rows, values := make([]int64, n), make([]float32, 16*n)
				for i := range rows {
					rows[i] = int64(i * i % 4999)
				}
				call := func() {
					must(kv.PullRows(ctx, key, rows, values))
					must(kv.PushRows(ctx, key, rows, values))
				}
				for range 40 { // all connections
					call()
				}
				if got := alloctest.PerRun(20, call); got != 0 {
					t.Errorf("network %+v: pull and push of %d rows, %s: got %v allocations a round, want none", network, n, key, got)
				}
			}
		}
	}
}

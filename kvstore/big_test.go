package kvstore_test

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/paragon-train/paragon/internal/store/shard"
	"github.com/paragon-train/paragon/internal/testing/jobtest"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/optim"
)

// A table of ten million rows of 16 takes at most 1.3 times the memory of its numbers and its
// optimizer's, as does an open vocabulary that comes to as many; Usage tells it.
func TestTenMillionRowsTakeLittleMoreThanTheirNumbers(t *testing.T) {
	if os.Getenv("PARAGON_TEST_SLOW") == "" {
		t.Skip("takes some GB of memory; set PARAGON_TEST_SLOW")
	}
	const numRows, rowLen, batch = 10_000_000, 16, 1 << 16
	for _, optimizer := range []string{"sgd", "adagrad"} {
		for _, open := range []bool{false, true} {
			t.Run(fmt.Sprintf("optimizer=%s/open=%v", optimizer, open), func(t *testing.T) {
				kv := jobtest.New(t, jobtest.Config{Servers: 2}).Stores(t, "dist_sync")[0]
				ctx := t.Context()
				must(kv.SetOptimizer(ctx, optim.Config{Name: optimizer, LearningRate: 1}))
				grad := make([]float32, batch*rowLen)
				for i := range grad {
					grad[i] = 1
				}
				before := held()
				table := kvstore.Table{Rows: numRows, RowLen: rowLen, Initializer: kvstore.Initializer{Name: "uniform", Low: -1, High: 1}}
				if open {
					table.Rows, table.MaxRows = 0, numRows*101/100
				}
				must(kv.InitTable(ctx, "table", table))
				name := func(row int64) int64 { return row }
				if open {
					name = func(row int64) int64 { return int64(shard.Mix(uint64(row))) }
				}
				first, after := make([]float32, rowLen), make([]float32, rowLen)
				some := []int64{name(numRows / 2)}
				must(kv.PullRows(ctx, "table", some, first))
				for from := int64(0); from < numRows; from += batch {
					var rows []int64
					for row := from; row < min(from+batch, numRows); row++ {
						rows = append(rows, name(row))
					}
					must(kv.PushRows(ctx, "table", rows, grad[:len(rows)*rowLen]))
				}
				must(kv.PullRows(ctx, "table", some, after))
				if d := first[3] - after[3]; d < 0.99 || d > 1.01 { // both rules step by the rate at first
					t.Errorf("row %d: got %v from %v, want it 1 less", some[0], after[3], first[3])
				}
				numbers := int64(4 * numRows * rowLen)
				if optimizer == "adagrad" {
					numbers *= 2
				}
				got := held() - before
				usage, err := kv.Usage(ctx)
				must(err)
				told, rows := int64(0), uint64(0)
				for _, u := range usage {
					told += int64(u.Values + u.State + u.Index)
					rows += u.Rows
				}
				t.Logf("memory: %d MB for %d MB of numbers: %.2f times; told: %d MB", got>>20, numbers>>20, float64(got)/float64(numbers), told>>20)
				if got > numbers*13/10 || got < numbers {
					t.Errorf("memory: got %d bytes for %d of numbers, want 1 to 1.3 times", got, numbers)
				}
				if told > got*105/100 || told < got*90/100 { // a round's memory is not told
					t.Errorf("usage: got %d bytes told, %d held", told, got)
				}
				if open && rows != numRows {
					t.Errorf("usage: got %d rows, want %d", rows, numRows)
				}
				runtime.KeepAlive(grad)
			})
			debug.FreeOSMemory()
		}
	}
}

// held returns the bytes of memory that are in use.
func held() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

package rowsplit

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/paragon-train/paragon/internal/store/shard"
)

// The rows of an open vocabulary have any 64 bits as their ID, and their shards are sorted by more
// than one digit: each shard gets its rows once, rising as numbers without sign, and what comes
// back goes to the rows that asked.
func TestSplitSortsAnOpenVocabulary(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for _, shards := range []int{1, 3, 1 << digit, 3<<digit + 1} {
		for _, n := range []int{0, 1, 2, 50, 3000} {
			for _, shift := range []int{0, 20, 44, 52} { // small IDs, and large and negative ones
				rows, grad := make([]int64, n), make([]float32, n)
				want := map[int64]float32{}
				for i := range rows {
					rows[i] = random.Int64N(1<<12) << shift
					grad[i] = float32(random.IntN(100))
					want[rows[i]] += grad[i]
				}
				what := fmt.Sprintf("%d rows over %d shards, IDs times 2^%d", n, shards, shift)
				var p Split
				spread := shard.NewSpread(0, shards)
				p.Divide(&spread, shards, rows, true)
				p.Add(1, grad)
				came := 0
				for i := range p.Shards {
					x := &p.Shards[i]
					if !slices.IsSortedFunc(x.Rows, func(a, b int64) int { return cmp.Compare(uint64(a), uint64(b)) }) {
						t.Fatalf("%s: shard %d: got rows %v, want them rising", what, i, x.Rows)
					}
					for j, row := range x.Rows {
						if to, _ := spread.Of(row); to != i || x.Values[j] != want[row] {
							t.Fatalf("%s: shard %d: got row %d with the sum %v, want shard %d and %v", what, i, row, x.Values[j], to, want[row])
						}
					}
					came += len(x.Rows)
				}
				if came != len(want) {
					t.Fatalf("%s: got %d rows, want each of the %d once", what, came, len(want))
				}
				out := make([]float32, n)
				p.Divide(&spread, shards, rows, false)
				p.MakeValues(1)
				for i := range p.Shards {
					for j, row := range p.Shards[i].Rows {
						p.Shards[i].Values[j] = want[row]
					}
				}
				p.Scatter(1, out)
				for i, row := range rows {
					if out[i] != want[row] {
						t.Fatalf("%s: row %d: got %v back, want %v", what, row, out[i], want[row])
					}
				}
			}
		}
	}
}

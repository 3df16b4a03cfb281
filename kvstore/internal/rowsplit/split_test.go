package rowsplit

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/paragon-train/paragon/internal/store/shard"
)

// Whatever the rows and the number of shards: each shard gets its rows rising and once, with the
// sums of the duplicates, and what comes back goes to the rows that asked.
func TestSplitSendsRowsOnceAndBringsThemBack(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for trial := range 300 {
		shards, rowLen, table := 1+trial%4, 1+random.IntN(3), 1+random.IntN(20)
		rows := make([]int64, random.IntN(30))
		if trial%10 == 9 { // enough for another way to sort
			rows, table = make([]int64, 500), 1+random.IntN(3000)
		}
		for i := range rows {
			rows[i] = int64(random.IntN(table))
		}
		if trial%3 == 0 {
			slices.Sort(rows)
		}
		grad := make([]float32, len(rows)*rowLen)
		want := make([]float32, table*rowLen) // small whole numbers: sums are exact in any order
		for i, r := range rows {
			for j := range rowLen {
				grad[i*rowLen+j] = float32(random.IntN(100))
				want[int(r)*rowLen+j] += grad[i*rowLen+j]
			}
		}
		var p Split
		spread := shard.NewSpread(uint64(table), shards)
		p.Divide(&spread, shards, rows, true)
		p.Add(rowLen, grad)
		got := make([]float32, table*rowLen)
		for i := range p.Shards {
			x := &p.Shards[i]
			for j, row := range x.Rows {
				if j > 0 && x.Rows[j-1] >= row {
					t.Fatalf("trial %d shard %d: got rows %v, want them rising", trial, i, x.Rows)
				}
				copy(got[int(spread.Row(i, row))*rowLen:], x.Values[j*rowLen:(j+1)*rowLen])
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("trial %d: %d rows over %d shards: got sums %v, want %v", trial, len(rows), shards, got, want)
		}
		out := make([]float32, len(rows)*rowLen)
		p.Divide(&spread, shards, rows, false)
		p.Scatter(rowLen, out)
		for i, r := range rows {
			if !slices.Equal(out[i*rowLen:(i+1)*rowLen], want[int(r)*rowLen:(int(r)+1)*rowLen]) {
				t.Fatalf("trial %d: row %d: got %v, want %v", trial, r, out[i*rowLen:(i+1)*rowLen], want[int(r)*rowLen:(int(r)+1)*rowLen])
			}
		}
	}
}

// Duplicates add up in the order in which the caller named them, as one server would add them.
func TestSplitAddsDuplicatesInOrder(t *testing.T) {
	var s Split
	spread := shard.NewSpread(4, 1)
	s.Divide(&spread, 1, []int64{3, 1, 3, 3}, true)
	s.Add(1, []float32{1e8, 5, 1, -1e8})
	if got := s.Shards[0].Values[1]; got != 0 { // 1e8 + 1 is 1e8 in float32
		t.Errorf("row 3: got %v, want 0", got)
	}
}

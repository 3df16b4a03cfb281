package shard

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/internal/testing/alloctest"
	"github.com/paragon-train/paragon/optim"
)

func rowTable(t testing.TB, workers, rows, rowLen int) *Shard {
	t.Helper()
	n := uint64(rows * rowLen)
	s, err := New(Config{Name: "e", Form: wire.FormRows, Rule: wire.RuleOptimizer, Length: n, RowLen: uint64(rowLen), Size: n, Shards: 1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	setWorkers(t, s, 1, workers)
	return s
}

func rowsPush(s *Shard, rank int, round uint64, rows []int64, grad ...float32) Contribution {
	c := contribution(s, rank, round)
	c.Rows = len(rows)
	if len(rows) > 0 {
		c.Data = s.cfg.Pool.Get(RowsPayloadSize(len(rows), int(s.cfg.RowLen)))
		p := payload{data: c.Data, count: len(rows)}
		r, v := p.rowValues(int(s.cfg.RowLen))
		copy(r, rows)
		copy(v, grad)
	}
	return c
}

func wantRows(t *testing.T, s *Shard, round uint64, rows []int64, want ...float32) {
	t.Helper()
	got := make([]float32, len(want))
	at, _, err := s.PullRows(rows, got)
	if err != nil || at != round || !slices.Equal(got, want) {
		t.Fatalf("rows %v: got %v of round %d, error %v; want %v of %d", rows, got, at, err, want, round)
	}
}

func TestRowsAddUpAndOthersStay(t *testing.T) {
	s := rowTable(t, 3, 5, 2)
	setOptimizer(t, s, optim.Config{Name: "test", LearningRate: 2})
	for round := range uint64(2) {
		mustPush(t, s, rowsPush(s, 2, round, []int64{1, 4}, 1, 2, 3, 4), Held)
		mustPush(t, s, rowsPush(s, 1, round, nil), Held) // no rows is a contribution too
		mustPush(t, s, rowsPush(s, 0, round, []int64{0, 4}, 10, 20, 30, 40), Held)
		k := float32(2 * (round + 1))
		wantRows(t, s, round+1, []int64{4, 0, 1, 2, 4}, 33*k, 44*k, 10*k, 20*k, 1*k, 2*k, 0, 0, 33*k, 44*k)
	}
	wantNothingHeld(t, s)
}

func TestWithoutOptimizerSummedRowsReplaceThoseRows(t *testing.T) {
	s := rowTable(t, 2, 3, 1)
	mustPush(t, s, rowsPush(s, 0, 0, []int64{0, 1}, 1, 2), Held)
	mustPush(t, s, rowsPush(s, 1, 0, []int64{1}, 5), Held)
	wantRows(t, s, 1, []int64{0, 1, 2}, 1, 7, 0)
	mustPush(t, s, rowsPush(s, 0, 1, []int64{2}, 3), Held)
	mustPush(t, s, rowsPush(s, 1, 1, []int64{2}, 4), Held)
	wantRows(t, s, 2, []int64{0, 1, 2}, 1, 7, 7)
}

func TestRowsAreRefusedUnlessTheyRise(t *testing.T) {
	s := rowTable(t, 1, 3, 1)
	for _, rows := range [][]int64{{1, 1}, {2, 0}, {-1}, {3}, {0, 1, 2, 3}, {1 << 62}} {
		_, err := s.Push(rowsPush(s, 0, 0, rows, make([]float32, len(rows))...))
		if err == nil {
			t.Errorf("push of rows %v of 3: got no error", rows)
		}
	}
	if _, _, err := s.PullRows([]int64{3}, make([]float32, 1)); codeOf(err) != wire.CodeSize {
		t.Errorf("pull of row 3 of 3: got %v, want code %d", err, wire.CodeSize)
	}
	if _, _, err := s.PullRows([]int64{0, 1}, make([]float32, 3)); codeOf(err) != wire.CodeSize {
		t.Errorf("pull of 2 rows into 3 values: got %v, want code %d", err, wire.CodeSize)
	}
	wantRows(t, s, 0, []int64{0, 1, 2}, 0, 0, 0)
}

func TestRowSumsRepeatBitForBit(t *testing.T) {
	grads := []float32{1e8, 1, -1e8, 3}
	var want []float32
	permutations(4, func(order []int) {
		s := rowTable(t, 4, 2, 1)
		for _, r := range order {
			mustPush(t, s, rowsPush(s, r, 0, []int64{1}, grads[r]), Held)
		}
		got := make([]float32, 1)
		if _, _, err := s.PullRows([]int64{1}, got); err != nil {
			t.Fatal(err)
		}
		if want == nil {
			want = got
		}
		if !slices.Equal(got, want) {
			t.Fatalf("order %v: got %v, want %v", order, got, want)
		}
	})
}

func TestSteadyRowRoundsAllocateNothing(t *testing.T) {
	s := rowTable(t, 2, 100, 8)
	setOptimizer(t, s, optim.Config{Name: "adagrad"})
	rows := []int64{3, 30, 60}
	out := make([]float32, len(rows)*8)
	round := uint64(0)
	step := func() {
		for r := range 2 {
			c := rowsPush(s, r, round, rows)
			c.Data.Float32s(30)[6] = 1
			if status, err := s.Push(c); status != Held || err != nil {
				t.Fatal(status, err)
			}
		}
		round++
		if _, _, err := s.PullRows(rows, out); err != nil {
			t.Fatal(err)
		}
	}
	step()
	if got := alloctest.PerRun(50, step); got != 0 {
		t.Errorf("allocations of a round: got %v, want 0", got)
	}
}

// One batch of 1024 examples of 26 rows each, of a table of a million rows of 16 values: pull, then
// push of what is unique.
//
//	go test ./internal/store/shard -run xxx -bench Rows
func BenchmarkRows(b *testing.B) {
	const tableRows, rowLen, batch = 1 << 20, 16, 1024 * 26
	for _, workers := range []int{1, 4} {
		for _, name := range []string{"sgd", "adagrad"} {
			b.Run(fmt.Sprintf("workers=%d/optimizer=%s", workers, name), func(b *testing.B) {
				s := rowTable(b, workers, tableRows, rowLen)
				setOptimizer(b, s, optim.Config{Name: name})
				random := rand.New(rand.NewPCG(1, 1))
				var rows []int64
				for range batch {
					rows = append(rows, random.Int64N(tableRows))
				}
				slices.Sort(rows)
				rows = slices.Compact(rows)
				grad, out := make([]float32, len(rows)*rowLen), make([]float32, len(rows)*rowLen)
				b.SetBytes(int64(workers * 2 * 4 * len(grad)))
				round := uint64(0)
				for b.Loop() {
					for r := range workers {
						if _, _, err := s.PullRows(rows, out); err != nil {
							b.Fatal(err)
						}
						if status, err := s.Push(rowsPush(s, r, round, rows, grad...)); status != Held || err != nil {
							b.Fatal(status, err)
						}
					}
					round++
				}
			})
		}
	}
}

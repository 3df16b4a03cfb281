package shard

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/internal/testing/alloctest"
	"github.com/paragon-train/paragon/optim"
)

// openShard returns a shard of an open vocabulary in rows of rowLen for workers of nodes 1, 2, ...
func openShard(t testing.TB, workers, rowLen int, table Table, change ...func(*Config)) *Shard {
	t.Helper()
	cfg := Config{Name: "words", Form: wire.FormOpen, Rule: wire.RuleOptimizer, RowLen: uint64(rowLen), Shards: 1, Table: &table, Host: &Host{}}
	for _, f := range change {
		f(&cfg)
	}
	s, err := New(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	setWorkers(t, s, 1, workers)
	return s
}

func sortedIDs(ids ...int64) []int64 {
	slices.SortFunc(ids, func(a, b int64) int { return cmp.Compare(uint64(a), uint64(b)) })
	return ids
}

func pulledRows(t testing.TB, s *Shard, ids ...int64) []float32 {
	t.Helper()
	out := make([]float32, len(ids)*int(s.cfg.RowLen))
	if _, _, err := s.PullRows(ids, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// Whatever the order in which rows are asked for and made, and the shard that holds them, a row is
// the same.
func TestRowsOfAnOpenVocabularyDoNotDependOnWhoAsksFirst(t *testing.T) {
	table := Table{Initializer: Initializer{Name: "normal", Mean: 2, Deviation: 0.5, Seed: 9}}
	ids := []int64{3, -7, math.MinInt64, math.MaxInt64, 1 << 33, 0}
	a, b := openShard(t, 1, 5, table), openShard(t, 1, 5, table, func(c *Config) { c.Shards, c.Index = 8, 5 })
	for _, s := range []*Shard{a, b} {
		setOptimizer(t, s, optim.Config{Name: "adagrad", LearningRate: 1, InitialAccumulator: 0.25})
	}
	want := pulledRows(t, a, ids...)
	if got := a.Usage(); got.Rows != 0 || got.Values != 0 {
		t.Errorf("after pulls: got %+v, want nothing held", got)
	}
	for round, id := range []int64{0, math.MaxInt64, -7} {
		mustPush(t, b, rowsPush(b, 0, uint64(round), []int64{id}, 0, 0, 0, 0, 0), Held)
	}
	mustPush(t, a, rowsPush(a, 0, 0, sortedIDs(3, -7, 1<<33), make([]float32, 15)...), Held)
	for what, s := range map[string]*Shard{"some rows made": a, "others, in another order, of another shard": b} {
		if got := pulledRows(t, s, ids...); !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", what, got, want)
		}
	}
	g := []float32{1, 2, 3, 4, 5}
	mustPush(t, a, rowsPush(a, 0, 1, []int64{-7}, g...), Held)
	mustPush(t, b, rowsPush(b, 0, 3, []int64{-7}, g...), Held)
	got := pulledRows(t, a, -7)
	if !slices.Equal(got, pulledRows(t, b, -7)) || got[0] == want[5] {
		t.Errorf("row -7 after a push: got %v and %v, want the same, other than %v", got, pulledRows(t, b, -7), want[5:10])
	}
	if w := want[5] - float32(1/(math.Sqrt(1.25)+1e-10)); math.Abs(float64(got[0]-w)) > 1e-6 {
		t.Errorf("row -7 after a push: got %v at first, want %v, with an accumulator that began at 0.25", got[0], w)
	}
	other := openShard(t, 1, 5, Table{Initializer: Initializer{Name: "normal", Mean: 2, Deviation: 0.5, Seed: 10}})
	if slices.Equal(pulledRows(t, other, ids...), want) {
		t.Error("another seed: got the same values")
	}
}

func TestInitializersDrawWhatTheySay(t *testing.T) {
	const n = 20_000
	for _, c := range []struct {
		init            Initializer
		mean, deviation float64
		least, greatest float32
	}{
		{Initializer{}, 0, 0, 0, 0},
		{Initializer{Name: "uniform", Low: -2, High: 4}, 1, math.Sqrt(3), -2, 4},
		{Initializer{Name: "uniform", Low: 3, High: 3}, 3, 0, 3, 3},
		{Initializer{Name: "normal", Mean: -1, Deviation: 0.5}, -1, 0.5, -5, 3},
	} {
		for seed := range uint64(3) {
			c.init.Seed = seed
			var sum, squares float64
			row := make([]float32, 5)
			for id := range int64(n / 5) {
				c.init.fill(hashOf("w"), id, row)
				for _, v := range row {
					if v < c.least || v > c.greatest {
						t.Fatalf("%+v: row %d: got %v, want %v to %v", c.init, id, v, c.least, c.greatest)
					}
					sum += float64(v)
					squares += float64(v) * float64(v)
				}
			}
			mean := sum / n
			deviation := math.Sqrt(max(squares/n-mean*mean, 0))
			if bound := 4 * c.deviation / math.Sqrt(n); math.Abs(mean-c.mean) > bound+1e-9 || math.Abs(deviation-c.deviation) > bound+1e-6 {
				t.Errorf("%+v: got mean %.4f and deviation %.4f, want %.4f and %.4f", c.init, mean, deviation, c.mean, c.deviation)
			}
		}
	}
}

// A model of maps: random rounds of several workers, with rows that come and go between pages and
// indices.
func TestOpenVocabularyIsAMapOfRows(t *testing.T) {
	const rowLen = 2
	random := rand.New(rand.NewPCG(4, 4))
	s := openShard(t, 2, rowLen, Table{Initializer: Initializer{Name: "uniform", Low: -1, High: 1}})
	setOptimizer(t, s, optim.Config{Name: "test", LearningRate: 1})
	model := map[int64][]float32{}
	for round := range uint64(40) {
		touched := map[int64][]float32{}
		for worker := range 2 {
			ids := make([]int64, random.IntN(600))
			for i := range ids {
				ids[i] = random.Int64N(20_000) << (round % 3 * 20)
			}
			ids = slices.Compact(sortedIDs(ids...))
			grad := make([]float32, len(ids)*rowLen)
			for i := range grad {
				grad[i] = float32(random.IntN(8))
			}
			mustPush(t, s, rowsPush(s, worker, round, ids, grad...), Held)
			for i, id := range ids {
				if touched[id] == nil {
					touched[id] = make([]float32, rowLen)
				}
				for j := range rowLen {
					touched[id][j] += grad[i*rowLen+j]
				}
			}
		}
		for id, g := range touched {
			if model[id] == nil {
				model[id] = make([]float32, rowLen)
				s.cfg.Table.Initializer.fill(hashOf("words"), id, model[id])
			}
			for j := range rowLen {
				model[id][j] += g[j]
			}
		}
	}
	for id, want := range model {
		if got := pulledRows(t, s, id); !slices.Equal(got, want) {
			t.Fatalf("row %d: got %v, want %v", id, got, want)
		}
	}
	if got := s.Usage(); got.Rows != uint64(len(model)) || got.Rows < 10_000 {
		t.Errorf("rows held: got %d, want %d, and many", got.Rows, len(model))
	}
	wantNothingHeld(t, s)
}

func TestAFullTableRefusesAllOfAPush(t *testing.T) {
	var taken int64
	for name, s := range map[string]*Shard{
		"limit of rows": openShard(t, 1, 1, Table{MaxRows: 40}, func(c *Config) { c.Shards = 10 }), // a tenth of it
		"limit of bytes": openShard(t, 1, 1<<14, Table{}, func(c *Config) {
			c.Grow = func(n int64) error {
				if taken+n > 1<<19 {
					return errors.New("got too many bytes")
				}
				taken += n
				return nil
			}
		}),
	} {
		grad := make([]float32, 9*int(s.cfg.RowLen))
		mustPush(t, s, rowsPush(s, 0, 0, []int64{1, 2}, grad[:2*s.cfg.RowLen]...), Held)
		before := s.Usage()
		_, err := s.Push(rowsPush(s, 0, 1, []int64{0, 1, 2, 3, 4, 5, 6, 7, 8}, grad...))
		if codeOf(err) != wire.CodeFull || !strings.Contains(err.Error(), `"words"`) || !strings.Contains(err.Error(), "got 7 new rows with the 2 that are here") {
			t.Errorf("%s: got %v, want code %d and key, rows and limit in it", name, err, wire.CodeFull)
		}
		if got := s.Usage(); got != before || s.Rounds() != 1 {
			t.Errorf("%s: a refused push: got %+v after %d rounds, want %+v after 1", name, got, s.Rounds(), before)
		}
		mustPush(t, s, rowsPush(s, 0, 1, []int64{1, 2}, grad[:2*s.cfg.RowLen]...), Held) // those that are here go on
	}
}

func TestOpenVocabularyRefusesBadRequests(t *testing.T) {
	s := openShard(t, 1, 2, Table{})
	for _, ids := range [][]int64{{1, 1}, {2, 1}, {-1, 0}} {
		if _, err := s.Push(rowsPush(s, 0, 0, ids, make([]float32, 2*len(ids))...)); codeOf(err) != wire.CodeMalformed {
			t.Errorf("push of IDs %v: got %v, want code %d", ids, err, wire.CodeMalformed)
		}
	}
	if _, err := s.ReadState(); codeOf(err) != wire.CodeUnsupported {
		t.Errorf("read state: got %v", err)
	}
	if err := s.WriteState(1, nil, nil); codeOf(err) != wire.CodeUnsupported {
		t.Errorf("write state: got %v", err)
	}
	write := func(first bool, ids ...int64) error {
		c := rowsPush(s, 0, 0, ids, make([]float32, 2*len(ids))...)
		return s.WriteRows(3, first, nil, len(ids), c.Data)
	}
	if err := errors.Join(write(true, 4, 5), write(false, 1, 9)); err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{"twice": write(false, 3, 4), "falling": write(false, 30, 20), "slots": s.WriteRows(3, false, []string{"m"}, 0, nil)} {
		if err == nil {
			t.Errorf("write rows: %s: got no error", what)
		}
	}
	dense := dense(t, 1, 2)
	if _, err := dense.ReadRows(0, 1); codeOf(err) != wire.CodeUnsupported {
		t.Errorf("read rows of a dense key: got %v", err)
	}
	if err := dense.WriteRows(0, true, nil, 0, nil); codeOf(err) != wire.CodeUnsupported {
		t.Errorf("write rows of a dense key: got %v", err)
	}
	for _, change := range []func(*Config){
		func(c *Config) { c.RowLen = 0 }, func(c *Config) { c.RowLen = 1 << 40 }, func(c *Config) { c.Length, c.Size = 2, 2 }, func(c *Config) { c.Rule = wire.RuleAverage },
		func(c *Config) { c.Form, c.Length, c.Size = wire.FormRows, 2, 2 },
	} {
		cfg := Config{Name: "words", Form: wire.FormOpen, Rule: wire.RuleOptimizer, RowLen: 2, Shards: 1, Table: &Table{MaxRows: 4}}
		change(&cfg)
		if _, err := New(cfg, nil); err == nil {
			t.Errorf("config %+v: got no error", cfg)
		}
	}
}

func TestSteadyRoundsOfAnOpenVocabularyAllocateNothing(t *testing.T) {
	for _, rowLen := range []int{8, 2000} {
		s := openShard(t, 2, rowLen, Table{Initializer: Initializer{Name: "normal", Deviation: 1}})
		setOptimizer(t, s, optim.Config{Name: "adagrad"})
		ids := []int64{3, 30, 60, -5}
		out, round := make([]float32, 5*rowLen), uint64(0)
		step := func() {
			for r := range 2 {
				if status, err := s.Push(rowsPush(s, r, round, ids)); status != Held || err != nil {
					t.Fatal(status, err)
				}
			}
			round++
			if _, _, err := s.PullRows([]int64{3, 30, 60, 7, -5}, out); err != nil { // 7 is not there
				t.Fatal(err)
			}
		}
		step()
		if got := alloctest.PerRun(50, step); got != 0 {
			t.Errorf("rows of %d: allocations of a round: got %v, want 0", rowLen, got)
		}
	}
}

func FuzzDecodeTable(f *testing.F) {
	for _, t := range []Table{{}, {MaxRows: 5}, {Initializer: Initializer{Name: "uniform", Low: -1, High: 1, Seed: 4}}, {Initializer: Initializer{Name: "normal", Mean: 1, Deviation: 2}}} {
		text, err := t.Encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
		f.Add(text + "{}")
	}
	f.Add(`{"max_rows":-1}`)
	f.Add(`{"initializer":{"name":"uniform","low":1e300,"high":1e300}}`)
	f.Fuzz(func(t *testing.T, text string) {
		table, err := DecodeTable(text)
		if err != nil {
			return
		}
		again, err := table.Encode()
		if err != nil {
			t.Fatalf("%q decoded to %+v, which cannot be encoded: %v", text, table, err)
		}
		if back, err := DecodeTable(again); err != nil || back != table {
			t.Fatalf("%q: got %+v and error %v, want %+v", again, back, err, table)
		}
	})
}

// One batch of 1024 examples of 26 rows each of an open vocabulary of a million rows of 16 values:
// pull, then push.
//
//	go test ./internal/store/shard -run xxx -bench OpenRows
func BenchmarkOpenRows(b *testing.B) {
	const tableRows, rowLen, batch = 1 << 20, 16, 1024 * 26
	for _, name := range []string{"sgd", "adagrad"} {
		b.Run(fmt.Sprintf("optimizer=%s", name), func(b *testing.B) {
			s := openShard(b, 1, rowLen, Table{})
			setOptimizer(b, s, optim.Config{Name: name})
			random := rand.New(rand.NewPCG(1, 1))
			id := func(n int64) int64 { return int64(Mix(uint64(n))) }
			round := uint64(0)
			for from := int64(0); from < tableRows; from += batch {
				var ids []int64
				for n := from; n < min(from+batch, tableRows); n++ {
					ids = append(ids, id(n))
				}
				ids = sortedIDs(ids...)
				if _, err := s.Push(rowsPush(s, 0, round, ids, make([]float32, len(ids)*rowLen)...)); err != nil {
					b.Fatal(err)
				}
				round++
			}
			var ids []int64
			for range batch {
				ids = append(ids, id(random.Int64N(tableRows)))
			}
			ids = slices.Compact(sortedIDs(ids...))
			grad, out := make([]float32, len(ids)*rowLen), make([]float32, len(ids)*rowLen)
			b.SetBytes(int64(2 * 4 * len(grad)))
			for b.Loop() {
				if _, _, err := s.PullRows(ids, out); err != nil {
					b.Fatal(err)
				}
				if status, err := s.Push(rowsPush(s, 0, round, ids, grad...)); status != Held || err != nil {
					b.Fatal(status, err)
				}
				round++
			}
		})
	}
}

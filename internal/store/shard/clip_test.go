package shard

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/paragon-train/paragon/internal/compute/exact"
	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/optim"
)

// clipping1 is an optimizer whose gradients are clipped at a norm of 1 over all keys.
func clipping1(name string) optim.Config {
	return optim.Config{Name: name, LearningRate: 1, Reduction: optim.Mean, ClipGlobalNorm: 1}
}

// heldSquares are the squares of a round that is held.
func heldSquares(t testing.TB, s *Shard, round uint64) float64 {
	t.Helper()
	h, err := s.ReadHeld(round)
	if err != nil || h.Closed {
		t.Fatalf("round %d: got %+v, error %v; want it held", round, h, err)
	}
	return h.Squares.Total()
}

func decide(t testing.TB, s *Shard, round uint64, d Decision) ClipState {
	t.Helper()
	h, err := s.Decide(round, d)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// wantOpen checks that a round has not closed, and that its pulls wait.
func wantOpen(t testing.TB, s *Shard, round uint64) {
	t.Helper()
	if _, ok, err := s.TryPull(Want{Round: round + 1}); ok || err != nil || s.Rounds() != round {
		t.Fatalf("round %d: has a value: %v, error %v, %d rounds closed; want it open", round, ok, err, s.Rounds())
	}
}

func TestAHeldRoundClosesWithItsDecision(t *testing.T) {
	s := dense(t, 2, 10, 20)
	setOptimizer(t, s, clipping1("sgd"))
	mustPush(t, s, contribution(s, 1, 0, 3, 0), Held)
	_, w, err := s.Pull(Want{Node: node(0), Round: 0, Clip: true})
	if w == nil || err != nil {
		t.Fatalf("a round that is not whole is held, error %v", err)
	}
	if h, err := s.ReadHeld(0); codeOf(err) != wire.CodeConflict {
		t.Errorf("a round that is not whole: got %+v, %v; want a conflict", h, err)
	}
	if _, err := s.Decide(0, Decision{Factor: 1}); codeOf(err) != wire.CodeConflict {
		t.Errorf("a decision about a round that is not whole: got %v, want a conflict", err)
	}
	if s.Undecided(Want{Round: 1}) {
		t.Error("a round that is not whole waits for a decision")
	}
	mustPush(t, s, contribution(s, 0, 0, 3, 16), Held)
	select {
	case <-w.Done():
	default:
		t.Fatal("the wait for the sum is not over")
	}
	if v, err := w.Result(); v != nil || err != nil {
		t.Fatalf("the wait for the sum: got a value: %v, error %v; want none", v != nil, err)
	}
	wantOpen(t, s, 0)
	if !s.Undecided(Want{Round: 1}) {
		t.Error("a held round does not wait for a decision")
	}
	// The mean of the two is (3, 8).
	if got := heldSquares(t, s, 0); got != 73 {
		t.Errorf("squares: got %v, want 73", got)
	}
	// The next round's contributions may come already.
	mustPush(t, s, contribution(s, 0, 1, 1, 1), Held)
	first := Decision{Norm: 2, Factor: 0.5, Rank: 1}
	if h := decide(t, s, 0, first); !h.Decided || h.Decision != first {
		t.Errorf("got %+v, want %+v decided", h, first)
	}
	wantValue(t, s, 1, 8.5, 16)
	// Another one comes too late, whatever it says.
	if h := decide(t, s, 0, Decision{Norm: 1, Factor: 1}); h.Decision != first || !h.Closed || !h.Decided {
		t.Errorf("a second decision: got %+v, want %+v", h, first)
	}
	if h, err := s.ReadHeld(0); err != nil || h.Decision != first || !h.Closed || !h.Decided {
		t.Errorf("a closed round: got %+v, error %v; want %+v", h, err, first)
	}
	mustPush(t, s, contribution(s, 1, 1, 1, 1), Held)
	decide(t, s, 1, Decision{Norm: 1, Factor: 1})
	wantValue(t, s, 2, 7.5, 15)
	if h, err := s.ReadHeld(0); err != nil || !h.Closed || h.Decided {
		t.Errorf("a round that closed long ago: got %+v, error %v; want it closed and not known", h, err)
	}
	wantNothingHeld(t, s)
}

func TestASkippedRoundChangesNothingAndCounts(t *testing.T) {
	s := dense(t, 1, 1, 2)
	setOptimizer(t, s, clipping1("adam"))
	mustPush(t, s, contribution(s, 0, 0, 1, float32(math.Inf(1))), Held)
	if got := heldSquares(t, s, 0); !math.IsNaN(got) {
		t.Errorf("squares with an infinity: got %v, want NaN", got)
	}
	decide(t, s, 0, Decision{Norm: math.NaN()})
	wantValue(t, s, 1, 1, 2)
	for _, slot := range s.updater.slots() {
		if slices.Max(slot.Values) != 0 {
			t.Errorf("%s became %v", slot.Name, slot.Values)
		}
	}
	for _, d := range []Decision{{Factor: 1.5, Norm: 1}, {Factor: -1}, {Factor: math.NaN()}, {Factor: 1, Norm: math.Inf(1)}, {Factor: 0.5, Norm: math.NaN()}} {
		if _, err := s.Decide(1, d); codeOf(err) != wire.CodeMalformed {
			t.Errorf("%+v: got %v, want it refused as malformed", d, err)
		}
	}
	wantNothingHeld(t, s)
}

// cutShards makes the shards of a dense key that is cut at multiples of squaresBlock.
func cutShards(t testing.TB, value []float32, n int, opt optim.Config) (shards []*Shard) {
	blocks := (len(value) + squaresBlock - 1) / squaresBlock
	from := 0
	for i := range n {
		to := min(len(value), (i+1)*blocks/n*squaresBlock)
		s, err := New(Config{Name: "w", Form: wire.FormDense, Rule: wire.RuleOptimizer, Index: uint32(i), Shards: uint32(n),
			Offset: uint64(from), Length: uint64(to - from), Size: uint64(len(value))}, value[from:to])
		if err != nil {
			t.Fatal(err)
		}
		setWorkers(t, s, 1, 2)
		setOptimizer(t, s, opt)
		shards, from = append(shards, s), to
	}
	return shards
}

// Wherever a key is cut, squares and values are those of the whole key, bit for bit.
func TestClippedKeysAreTheSameBitsWhereverTheyAreCut(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 9))
	const n = 7*squaresBlock + 313
	random := func() []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(r.NormFloat64())
		}
		return x
	}
	first, a, b := random(), random(), random()
	for _, name := range []string{"sgd", "adamw"} {
		cfg := optim.Config{Name: name, LearningRate: 0.1, Reduction: optim.Mean, ClipGlobalNorm: 3, ClipGradient: 1.5}
		opt, err := optim.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		// The whole key, by package optim.
		want, sum, state := slices.Clone(first), make([]float32, n), opt.NewState(n)
		for i := range sum {
			sum[i] = a[i] + b[i]
		}
		pass := opt.At(0, 0.5, opt.Factors("w"))
		norm := math.Sqrt(pass.GradientSquares(sum))
		var bits uint64
		for _, shards := range []int{1, 2, 3, 5, 8} {
			list := cutShards(t, first, shards, cfg)
			var squares exact.Sum
			for _, s := range list {
				from, to := int(s.cfg.Offset), int(s.cfg.Offset+s.cfg.Length)
				mustPush(t, s, contribution(s, 1, 0, b[from:to]...), Held)
				mustPush(t, s, contribution(s, 0, 0, a[from:to]...), Held)
				h, err := s.ReadHeld(0)
				if err != nil {
					t.Fatal(err)
				}
				squares.Merge(&h.Squares)
			}
			got := math.Sqrt(squares.Total())
			if bits == 0 {
				bits = math.Float64bits(got)
				if math.Abs(got-norm) > 1e-12*norm {
					t.Fatalf("%s: got norm %v, want %v", name, got, norm)
				}
				if err := pass.WithClip(cfg.ClipFactor(got)).Update(want, sum, state); err != nil {
					t.Fatal(err)
				}
			}
			if math.Float64bits(got) != bits {
				t.Errorf("%s in %d shards: got norm %v, in one %v", name, shards, got, math.Float64frombits(bits))
			}
			var value []float32
			for _, s := range list {
				decide(t, s, 0, Decision{Norm: got, Factor: cfg.ClipFactor(got)})
				v, _, _ := s.TryPull(Want{Round: 1})
				value = append(value, v.Float32s()...)
				v.Release()
			}
			if !slices.Equal(value, want) {
				t.Errorf("%s in %d shards: other values than of the whole key", name, shards)
			}
		}
	}
}

// A contribution that the guard has refused is in no sum, nor is one of weight 0.
func TestWhatIsNotInTheSumIsNotInTheNorm(t *testing.T) {
	s := dense(t, 2, 0)
	setOptimizer(t, s, clipping1("sgd"))
	SetGuard([]*Shard{s}, Guard{})
	mustPush(t, s, contribution(s, 0, 0, float32(math.NaN())), Held)
	mustPush(t, s, contribution(s, 1, 0, 3), Held)
	if got := heldSquares(t, s, 0); got != 9 {
		t.Errorf("with one refused: got squares %v, want 9", got)
	}
	decide(t, s, 0, Decision{Norm: 3, Factor: 1})
	wantValue(t, s, 1, -3)
	for rank := range 2 {
		mustPush(t, s, contribution(s, rank, 1, float32(math.NaN())), Held)
	}
	if got := heldSquares(t, s, 1); got != 0 {
		t.Errorf("with all refused: got squares %v, want 0", got)
	}
	decide(t, s, 1, Decision{Norm: 0, Factor: 1})
	wantValue(t, s, 2, -3)
	for rank := range 2 {
		c := contribution(s, rank, 2, 5)
		c.Weight = 0
		mustPush(t, s, c, Held)
	}
	if got := heldSquares(t, s, 2); got != 0 {
		t.Errorf("of weight 0: got squares %v, want 0", got)
	}
	decide(t, s, 2, Decision{Norm: 0, Factor: 1})
	wantValue(t, s, 3, -3)
	wantNothingHeld(t, s)
}

// Averaged keys have no optimizer, and their rounds are not held.
func TestAveragedKeysAreNotHeld(t *testing.T) {
	cfg := denseConfig(1)
	cfg.Rule = wire.RuleAverage
	s, err := New(*cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	setWorkers(t, s, 1, 1)
	setOptimizer(t, s, clipping1("sgd"))
	mustPush(t, s, contribution(s, 0, 0, 4), Held)
	if wantValue(t, s, 1, 4); s.Clips() {
		t.Error("an averaged key holds its rounds")
	}
}

// A held round needs nobody who joins, and keeps what a worker that leaves has contributed.
func TestMembersChangeWhileARoundIsHeld(t *testing.T) {
	s := dense(t, 2, 0)
	setOptimizer(t, s, clipping1("sgd"))
	mustPush(t, s, contribution(s, 0, 0, 2), Held)
	mustPush(t, s, contribution(s, 1, 0, 4), Held)
	members := []Member{{Node: node(1), Rank: 0}, {Node: node(5), Rank: 1}}
	if err := s.SetMembers(2, members); err != nil {
		t.Fatal(err)
	}
	wantOpen(t, s, 0)
	if got := heldSquares(t, s, 0); got != 9 {
		t.Errorf("after the change: got squares %v, want 9", got)
	}
	decide(t, s, 0, Decision{Norm: 3, Factor: 0.5})
	wantValue(t, s, 1, -1.5)
	// Both members count in the next round, and the one that has left does not.
	c := contribution(s, 1, 1, 1)
	c.Generation = 2
	mustPush(t, s, c, Held)
	wantOpen(t, s, 1)
	if _, err := s.ReadHeld(1); codeOf(err) != wire.CodeConflict {
		t.Errorf("a round that lacks the new worker is held: %v", err)
	}
	c = contribution(s, 5, 1, 3)
	c.Generation, c.Seq = 2, 1
	mustPush(t, s, c, Held)
	decide(t, s, 1, Decision{Norm: 2, Factor: 1})
	wantValue(t, s, 2, -3.5)
	wantNothingHeld(t, s)
}

// Loans are added up before a round is held, so that their owners may end them, and get the value
// where they want it.
func TestLentContributionsAreAddedBeforeARoundIsHeld(t *testing.T) {
	for _, workers := range []int{1, 2, addTogether + 1} {
		s := dense(t, workers, 0, 0)
		setOptimizer(t, s, clipping1("sgd"))
		var loans []*fakeLoan
		for rank := range workers {
			c, l := lent(t, s, rank, 0, 3, 4)
			mustPush(t, s, c, Held)
			loans = append(loans, l)
		}
		if got := heldSquares(t, s, 0); got != 25 {
			t.Errorf("%d workers: got squares %v, want 25", workers, got)
		}
		// The memory is not read again.
		for _, l := range loans {
			clear(l.values)
		}
		s.Settle(loans[0])
		decide(t, s, 0, Decision{Norm: 5, Factor: 0.5})
		wantValue(t, s, 1, -1.5, -2)
		for rank, l := range loans {
			if want := []float32{-1.5, -2}; rank > 0 && (!slices.Equal(l.out, want) || l.placed != 1) {
				t.Errorf("%d workers: rank %d got %v of %d rounds, want %v of 1", workers, rank, l.out, l.placed, want)
			}
			s.Settle(l)
		}
		wantNothingHeld(t, s)
	}
}

// However rows are dealt out, their squares are the same bits; rows that come twice are summed first.
func TestSquaresOfRowsAreThoseOfTheSums(t *testing.T) {
	const rows, rowLen = 40, 3
	r := rand.New(rand.NewPCG(4, 4))
	grads := make([][]float32, 2)
	named := make([][]int64, 2)
	for w := range grads {
		for row := range int64(rows) {
			if r.IntN(2) == 0 {
				named[w] = append(named[w], row)
				for range rowLen {
					grads[w] = append(grads[w], float32(r.NormFloat64()))
				}
			}
		}
	}
	sums := make([]float32, rows*rowLen)
	for w := range grads {
		for i, row := range named[w] {
			for j := range rowLen {
				sums[int(row)*rowLen+j] += grads[w][i*rowLen+j]
			}
		}
	}
	want := 0.0
	for _, x := range sums {
		want += float64(x) * float64(x)
	}
	var bits []uint64
	for _, form := range []uint8{wire.FormRows, wire.FormOpen} {
		for _, n := range []int{1, 2, 3} {
			total := dealtSquares(t, form, n, rows, rowLen, named, grads)
			bits = append(bits, math.Float64bits(total))
			if math.Abs(total-want) > 1e-12*want {
				t.Errorf("form %d in %d shards: got %v, want %v", form, n, total, want)
			}
		}
	}
	if slices.Max(bits) != slices.Min(bits) {
		t.Errorf("got other bits with other shards: %x", bits)
	}
}

// dealtSquares pushes rows to the n shards of a key and returns their squares together.
func dealtSquares(t *testing.T, form uint8, n, rows, rowLen int, named [][]int64, grads [][]float32) float64 {
	var squares exact.Sum
	count := uint64(rows)
	if form == wire.FormOpen {
		count = 0
	}
	spread := NewSpread(count, n)
	for i := range n {
		cfg := Config{Name: "e", Form: form, Rule: wire.RuleOptimizer, Index: uint32(i), Shards: uint32(n), Offset: uint64(i), RowLen: uint64(rowLen)}
		if form == wire.FormRows {
			cfg.Length, cfg.Size = spread.Len(i)*uint64(rowLen), uint64(rows*rowLen)
		}
		s, err := New(cfg, nil)
		if err != nil {
			t.Fatal(err)
		}
		setWorkers(t, s, 1, len(grads))
		opt := clipping1("sgd")
		opt.Reduction = optim.Sum
		setOptimizer(t, s, opt)
		for w := range grads {
			var ids []int64
			var values []float32
			for k, row := range named[w] {
				if shard, at := spread.Of(row); shard == i {
					ids, values = append(ids, at), append(values, grads[w][k*rowLen:(k+1)*rowLen]...)
				}
			}
			order := make([]int, len(ids))
			for k := range order {
				order[k] = k
			}
			slices.SortFunc(order, func(a, b int) int {
				if uint64(ids[a]) < uint64(ids[b]) {
					return -1
				}
				return 1
			})
			c := contribution(s, w, 0)
			c.Rows = len(ids)
			c.Data = s.cfg.Pool.Get(RowsPayloadSize(len(ids), rowLen))
			for to, from := range order {
				c.Data.Int64s(len(ids))[to] = ids[from]
				copy(c.Data.Float32s(2*len(ids) + len(values))[2*len(ids)+to*rowLen:], values[from*rowLen:(from+1)*rowLen])
			}
			mustPush(t, s, c, Held)
		}
		h, err := s.ReadHeld(0)
		if err != nil {
			t.Fatal(err)
		}
		squares.Merge(&h.Squares)
		decide(t, s, 0, Decision{Norm: 1, Factor: 0.5})
		if s.Rounds() != 1 {
			t.Errorf("form %d: got %d rounds, want 1", form, s.Rounds())
		}
	}
	return squares.Total()
}

// A backup makes of each round what its primary has made, also of one that was skipped, and knows
// what was decided last.
func TestABackupFollowsDecisions(t *testing.T) {
	for _, name := range []string{"sgd", "adam"} {
		s := dense(t, 2, 1, 2, 3)
		setOptimizer(t, s, clipping1(name))
		b := fillFrom(t, s, 1, 2, 2, func() {})
		factors := []float64{1, 0.25, 0, 0.75}
		for round, factor := range factors {
			for rank := range 2 {
				mustPush(t, s, contribution(s, rank, uint64(round), float32(1+rank), float32(round), 3), Held)
			}
			want := Decision{Norm: 2, Factor: factor, Rank: 1}
			decide(t, s, uint64(round), want)
			record := s.Lend()
			if record == nil {
				t.Fatal("no record")
			}
			hand(t, record, b, 2)
			s.Commit(record, true)
			if h, err := b.ReadHeld(uint64(round)); err != nil || h.Decision != want || !h.Decided {
				t.Errorf("%s round %d: the backup says %+v, error %v; want %+v", name, round, h, err, want)
			}
		}
		if d := sameState(s, b); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

// sameState says what differs between values and states of two shards; empty: nothing.
func sameState(a, b *Shard) string {
	if a.rounds.number != b.rounds.number || !slices.Equal(a.readers.current.Float32s(), b.readers.current.Float32s()) {
		return fmt.Sprintf("got %v after %d rounds, want %v after %d", b.readers.current.Float32s(), b.rounds.number, a.readers.current.Float32s(), a.rounds.number)
	}
	for i, x := range a.updater.slots() {
		if y := b.updater.slots()[i]; !slices.Equal(x.Values, y.Values) {
			return fmt.Sprintf("%s: got %v, want %v", x.Name, y.Values, x.Values)
		}
	}
	return ""
}

// While a backup is filled, or lacks the round before, a round may be held and decided, and closes
// when that is over.
func TestAHeldRoundWaitsForTheBackup(t *testing.T) {
	s := dense(t, 1, 0)
	setOptimizer(t, s, clipping1("sgd"))
	fillFrom(t, s, 1, 1, 1, func() {})
	mustPush(t, s, contribution(s, 0, 0, 1), Held)
	decide(t, s, 0, Decision{Norm: 1, Factor: 1})
	mustPush(t, s, contribution(s, 0, 1, 2), Held)
	if got := heldSquares(t, s, 1); got != 4 {
		t.Errorf("squares: got %v, want 4", got)
	}
	first := Decision{Norm: 2, Factor: 0.5}
	decide(t, s, 1, first)
	if s.Rounds() != 1 {
		t.Fatalf("got %d rounds, want 1: the backup lacks it", s.Rounds())
	}
	// Other shards may have closed by the first decision, so that a later one must not count.
	if h := decide(t, s, 1, Decision{Norm: 1, Factor: 1}); h.Decision != first {
		t.Errorf("a second decision about a round that waits: got %+v, want %+v", h.Decision, first)
	}
	s.Commit(s.Lend(), true)
	s.Commit(s.Lend(), true)
	wantValue(t, s, 2, -2)
}

// Workers on other plans take the same sums of 1024 squares each (see wire.Clipped), from the key's
// beginning on: another length gives other bits.
func TestSquaresAreTakenInBlocksOf1024(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	gradient := make([]float32, 5000)
	for i := range gradient {
		gradient[i] = float32(random.NormFloat64())
	}
	s := dense(t, 1, make([]float32, len(gradient))...)
	setOptimizer(t, s, clipping1("sgd"))
	mustPush(t, s, contribution(s, 0, 0, gradient...), Held)
	var want exact.Sum
	for from := 0; from < len(gradient); from += 1024 {
		pass := s.updater.opt.At(0, 1, s.updater.factors)
		want.Add(pass.GradientSquares(gradient[from:min(from+1024, len(gradient))]))
	}
	if got := heldSquares(t, s, 0); got != want.Total() {
		t.Errorf("squares: got %x, want %x", got, want.Total())
	}
}

// A state that is written drops a held round, and its decision.
func TestAWrittenStateDropsAHeldRound(t *testing.T) {
	s := dense(t, 1, 0)
	setOptimizer(t, s, clipping1("sgd"))
	mustPush(t, s, contribution(s, 0, 0, 1), Held)
	heldSquares(t, s, 0)
	if err := s.WriteState(7, nil, []float32{5}); err != nil {
		t.Fatal(err)
	}
	wantValue(t, s, 7, 5)
	c := contribution(s, 0, 7, 3)
	mustPush(t, s, c, Held)
	if got := heldSquares(t, s, 7); got != 9 {
		t.Errorf("squares of the next round: got %v, want 9", got)
	}
	decide(t, s, 7, Decision{Norm: 3, Factor: 1})
	wantValue(t, s, 8, 2)
	wantNothingHeld(t, s)
}

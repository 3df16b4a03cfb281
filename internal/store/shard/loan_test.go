package shard

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/optim"
)

// A fakeLoan is a Loan whose values cannot be read, and whose place cannot be written to, unless it
// is claimed.
type fakeLoan struct {
	t       testing.TB
	values  []float32
	out     []float32 // nil: none
	claimed bool
	over    bool
	claims  int
	placed  uint64
}

func (l *fakeLoan) Claim() bool {
	if l.claimed {
		l.t.Error("a loan is claimed twice")
	}
	l.claimed = !l.over
	l.claims++
	return l.claimed
}

func (l *fakeLoan) Release() {
	if !l.claimed {
		l.t.Error("a loan is released that is not claimed")
	}
	l.claimed = false
}

func (l *fakeLoan) Over() bool { return l.over }

func (l *fakeLoan) Values() []float32 {
	if !l.claimed {
		return slices.Repeat([]float32{float32(math.NaN())}, len(l.values))
	}
	return l.values
}

func (l *fakeLoan) Out() []float32 { return l.out }

func (l *fakeLoan) Place(rounds uint64) {
	if !l.claimed {
		l.t.Error("a value is placed in a loan that is not claimed")
	}
	l.placed = rounds
}

// lent is a contribution as a loan, with a place for the value.
func lent(t testing.TB, s *Shard, rank int, round uint64, grad ...float32) (Contribution, *fakeLoan) {
	c := contribution(s, rank, round)
	l := &fakeLoan{t: t, values: slices.Clone(grad), out: make([]float32, len(grad))}
	c.Loan = l
	return c, l
}

// lentCases are the ways in which a round's value is made.
var lentCases = []struct {
	name     string
	mode     uint8
	rule     uint8
	opt      optim.Config
	backup   bool
	measured bool
	groups   [6]uint32
}{
	{name: "no optimizer"},
	{name: "sgd", opt: optim.Config{Name: "sgd", LearningRate: 0.1, Momentum: 0.9}},
	{name: "adam", opt: optim.Config{Name: "adam", LearningRate: 0.1}},
	{name: "norms of whole keys", opt: optim.Config{Name: "lars", LearningRate: 0.1}},
	{name: "clipped", opt: optim.Config{Name: "sgd", LearningRate: 0.1, ClipNorm: 0.5}},
	{name: "average", rule: wire.RuleAverage},
	{name: "any order", mode: wire.ModeAnyOrder},
	{name: "async", mode: wire.ModeAsync, opt: optim.Config{Name: "sgd", LearningRate: 0.1}},
	{name: "async average", mode: wire.ModeAsync, rule: wire.RuleAverage},
	{name: "backup", opt: optim.Config{Name: "sgd", LearningRate: 0.1}, backup: true},
	{name: "one host", groups: [6]uint32{1, 1, 1, 1, 1, 1}},
	{name: "two hosts", groups: [6]uint32{1, 2, 2, 1, 1, 2}, opt: optim.Config{Name: "sgd", LearningRate: 0.1}},
	{name: "a host and others", groups: [6]uint32{0, 2, 0, 2, 2, 0}},
	{name: "a host, in any order", groups: [6]uint32{0, 2, 0, 2, 2, 0}, mode: wire.ModeAnyOrder},
	{name: "measured", opt: optim.Config{Name: "sgd", LearningRate: 0.1}, measured: true},
}

// Values are the same bit for bit whether contributions are lent or copied, in every mix and order;
// and the value lies where it was wanted.
func TestLentContributionsGiveTheSameValues(t *testing.T) {
	const workers, n, rounds = 6, 2*lentPart + 77, 5
	for _, tt := range lentCases {
		t.Run(tt.name, func(t *testing.T) {
			make1 := func() *Shard {
				s, err := New(Config{Name: "w", Form: wire.FormDense, Rule: cmp.Or(tt.rule, wire.RuleOptimizer), Length: n, Size: n, Shards: 1}, make([]float32, n))
				if err != nil {
					t.Fatal(err)
				}
				var members []Member
				for rank, group := range tt.groups {
					members = append(members, Member{Node: node(rank), Rank: uint32(rank), Group: group})
				}
				if err := s.SetMembers(1, members); err != nil {
					t.Fatal(err)
				}
				if tt.mode != 0 {
					if err := s.SetMode(tt.mode); err != nil {
						t.Fatal(err)
					}
				}
				if tt.opt.Name != "" {
					opt, err := optim.New(tt.opt)
					if err != nil {
						t.Fatal(err)
					}
					if err := SetOptimizer([]*Shard{s}, opt, NoBound); err != nil {
						t.Fatal(err)
					}
				}
				return s
			}
			plain, s := make1(), make1()
			var other *Shard
			if tt.backup {
				other = fillFrom(t, s, 1, workers, n, func() {})
			}
			random := rand.New(rand.NewPCG(7, uint64(len(tt.name))))
			base := s.cfg.Pool.Taken()
			for round := range uint64(rounds) {
				var loans []*fakeLoan
				order := random.Perm(workers)
				if tt.mode == wire.ModeAnyOrder {
					slices.Sort(order) // the sum depends on the order in which they come
				}
				for _, rank := range order {
					grad := make([]float32, n)
					for i := range grad {
						grad[i] = float32(random.NormFloat64() * math.Pow(10, float64(random.IntN(5))))
					}
					c := contribution(plain, rank, round, grad...)
					c.Step.Measure = tt.measured
					mustPush(t, plain, c, Held)
					c = contribution(s, rank, round)
					c.Step.Measure = tt.measured
					l := &fakeLoan{t: t, values: slices.Clone(grad), out: make([]float32, n)}
					if random.IntN(3) == 0 { // the value is wanted where the gradient is
						l.out = l.values
					}
					if random.IntN(4) > 0 {
						c.Loan = l
					}
					status, err := Unlent, error(nil)
					if c.Loan != nil {
						status, err = s.Push(c)
					}
					if status == Unlent && err == nil { // must be copied
						c.Loan = nil
						c.Data = s.cfg.Pool.Get(4 * n)
						copy(c.Data.Float32s(n), grad)
						status, err = s.Push(c)
					}
					if status != Held || err != nil {
						t.Fatalf("push: got %d, %v", status, err)
					}
					if c.Loan == nil {
						continue
					}
					if random.IntN(4) == 0 { // its call ends before the round
						s.Settle(l)
						clear(l.values)
						l.out = nil
					}
					loans = append(loans, l)
				}
				if tt.backup {
					r := s.Lend()
					hand(t, r, other, 1)
					s.Commit(r, true)
				}
				want, err := await(t.Context(), plain, Want{Round: round + 1})
				if err != nil {
					t.Fatal(err)
				}
				wantValue(t, s, want.Round(), want.Float32s()...)
				for i, l := range loans {
					if l.claimed {
						t.Fatalf("round %d: loan %d is still claimed", round, i)
					}
					if l.out == nil {
						continue
					}
					if (l.placed == 0) != tt.backup {
						t.Fatalf("round %d: loan %d has the value of %d rounds; with a backup: %v", round, i, l.placed, tt.backup)
					}
					if l.placed == want.Round() && !slices.Equal(l.out, want.Float32s()) {
						t.Fatalf("round %d: another value was placed in loan %d", round, i)
					}
				}
				if (tt.measured || tt.name == "async average") != (len(loans) == 0) {
					t.Fatalf("round %d: %d contributions were lent", round, len(loans))
				}
				want.Release()
			}
			if got := s.cfg.Pool.Taken() - base; got > int64(4*(workers+4)*(n+n/4)) {
				t.Errorf("%d bytes are still taken", got)
			}
		})
	}
}

// A round of lent contributions waits until it can be closed, or until there are enough for a pass
// of their own; then each is read once.
func TestLentContributionsAreAddedTogether(t *testing.T) {
	const workers = addTogether + 2
	s := dense(t, workers, 0, 0, 0)
	base := s.cfg.Pool.Taken()
	var loans []*fakeLoan
	for rank := range workers {
		c, l := lent(t, s, rank, 0, 1, 2, 3)
		mustPush(t, s, c, Held)
		loans = append(loans, l)
		if want := rank+1 >= addTogether; (loans[0].claims > 0) != want {
			t.Fatalf("after contribution %d of %d: the first was added: %v, want %v", rank+1, workers, !want, want)
		}
		if got := s.cfg.Pool.Taken() - base; rank+1 < addTogether && got != 0 {
			t.Errorf("after contribution %d: %d bytes are taken for contributions, want 0", rank+1, got)
		}
	}
	wantValue(t, s, 1, workers, 2*workers, 3*workers)
	for i, l := range loans {
		if !slices.Equal(l.out, []float32{workers, 2 * workers, 3 * workers}) || l.placed != 1 {
			t.Errorf("loan %d: got %v of %d rounds", i, l.out, l.placed)
		}
	}
}

// A contribution that was taken back before it was added has not come: the round waits for the
// worker, which may push another.
func TestALoanThatWasTakenBackHasNotCome(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(s *Shard, l *fakeLoan) // after the loan is over
	}{
		{"found at the closing", func(*Shard, *fakeLoan) {}},
		{"settled", func(s *Shard, l *fakeLoan) { s.Settle(l) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := dense(t, 3, 0)
			s.counts.any = true
			c, l := lent(t, s, 1, 0, 100)
			c.Counted, c.Examples = true, 7
			mustPush(t, s, c, Held)
			mustPush(t, s, contribution(s, 0, 0, 1), Held)
			l.over = true
			tt.end(s, l)
			mustPush(t, s, contribution(s, 2, 0, 4), Held)
			if s.Rounds() != 0 {
				t.Fatal("the round closed without a contribution that was taken back")
			}
			if late := s.Laggards(Want{Round: 1}); len(late) != 1 || late[0].Node != node(1) {
				t.Errorf("the round waits for %v, want node %d", late, node(1))
			}
			if got, _ := s.ExamplesOf(node(1)); got != 0 {
				t.Errorf("%d examples of a contribution that has not come count", got)
			}
			mustPush(t, s, contribution(s, 1, 0, 2), Held) // the same sequence number
			wantValue(t, s, 1, 7)
		})
	}
	t.Run("pushed again at once", func(t *testing.T) {
		s := dense(t, 2, 0)
		c, l := lent(t, s, 0, 0, 100)
		mustPush(t, s, c, Held)
		l.over = true
		c, next := lent(t, s, 0, 0, 1)
		mustPush(t, s, c, Held)
		s.Settle(l) // the first call, which ends later
		mustPush(t, s, contribution(s, 1, 0, 2), Held)
		wantValue(t, s, 1, 3)
		if next.placed != 1 || l.placed != 0 {
			t.Errorf("the value was placed in the loans of %d and %d rounds, want 0 and 1", l.placed, next.placed)
		}
	})
	t.Run("of a worker that has left", func(t *testing.T) {
		s := dense(t, 2, 0)
		c, l := lent(t, s, 1, 0, 100)
		mustPush(t, s, c, Held)
		l.over = true
		setWorkers(t, s, 2, 1)
		c = contribution(s, 0, 0, 5)
		c.Generation = 2
		mustPush(t, s, c, Held)
		wantValue(t, s, 1, 5)
	})
	t.Run("of a worker that has left, in the middle of the order", func(t *testing.T) {
		s := dense(t, 3, 0)
		var loans []*fakeLoan
		for rank := range 2 {
			c, l := lent(t, s, rank, 0, 1)
			mustPush(t, s, c, Held)
			loans = append(loans, l)
		}
		loans[0].over = true
		members := []Member{{Node: node(1), Rank: 0}, {Node: node(2), Rank: 1}}
		if err := s.SetMembers(2, members); err != nil {
			t.Fatal(err)
		}
		c := contribution(s, 2, 0, 5)
		c.Generation = 2
		mustPush(t, s, c, Held)
		wantValue(t, s, 1, 6)
		if loans[1].claimed || loans[1].placed != 1 {
			t.Errorf("the other loan: claimed %v, placed %d", loans[1].claimed, loans[1].placed)
		}
	})
}

// What the worker does with its memory once its call has ended does not matter.
func TestASettledLoanIsNotUsed(t *testing.T) {
	s := dense(t, 2, 0, 0)
	c, l := lent(t, s, 1, 0, 3, 4)
	mustPush(t, s, c, Held)
	c, next := lent(t, s, 1, 1, 30, 40)
	mustPush(t, s, c, Held)
	for i, l := range []*fakeLoan{l, next} {
		s.Settle(l)
		l.values, l.over = []float32{9, 9}, true
		if held := s.stopwatch.held; held != int64((i+1)*8) {
			t.Errorf("%d bytes are held, want %d", held, (i+1)*8)
		}
	}
	mustPush(t, s, contribution(s, 0, 0, 1, 1), Held)
	wantValue(t, s, 1, 4, 5)
	mustPush(t, s, contribution(s, 0, 1, 1, 1), Held)
	wantValue(t, s, 2, 31, 41)
	if l.placed != 0 || next.placed != 0 || !slices.Equal(l.out, []float32{0, 0}) {
		t.Error("a value was placed in a settled loan")
	}
	s.Settle(l) // again, and long after
}

// The guard reads contributions when they come, before their turn: it gets copies.
func TestTheGuardGetsCopies(t *testing.T) {
	s := dense(t, 2, 0)
	SetGuard([]*Shard{s}, Guard{})
	if s.TakesLoans() {
		t.Error("a guarded shard takes loans")
	}
	c, l := lent(t, s, 0, 0, 1)
	if status, err := s.Push(c); status != Unlent || err != nil || l.claims > 0 {
		t.Errorf("push: got %d, %v, want %d", status, err, Unlent)
	}
}

func TestLoansThatDoNotFitAreRefused(t *testing.T) {
	s := dense(t, 1, 0, 0)
	for what, change := range map[string]func(c *Contribution, l *fakeLoan){
		"size":  func(c *Contribution, l *fakeLoan) { l.values = l.values[:1] },
		"codec": func(c *Contribution, l *fakeLoan) { c.Codec = wire.CodecFloat16 },
	} {
		c, l := lent(t, s, 0, 0, 1, 2)
		change(&c, l)
		if status, err := s.Push(c); status != Refused || codeOf(err) != wire.CodeSize {
			t.Errorf("%s: got %d, %v, want a refusal", what, status, err)
		}
	}
	c, l := lent(t, s, 0, 0, 1, 2)
	l.out = l.out[:1] // room for a value of another size
	mustPush(t, s, c, Held)
	if l.placed != 0 {
		t.Error("the value was placed where it does not fit")
	}
}

func BenchmarkLentRound(b *testing.B) {
	for _, workers := range []int{1, 2, 4} {
		b.Run(fmt.Sprint(workers), func(b *testing.B) {
			const n = 1 << 20
			s := dense(b, workers, make([]float32, n)...)
			loans := make([]*fakeLoan, workers)
			for i := range loans {
				loans[i] = &fakeLoan{t: b, values: make([]float32, n), out: make([]float32, n), claimed: true}
			}
			b.SetBytes(4 * n)
			round := uint64(0)
			for b.Loop() {
				for rank, l := range loans {
					l.claimed = true // for the check of its size
					c := contribution(s, rank, round)
					c.Loan = alwaysLent{l}
					mustPush(b, s, c, Held)
				}
				round++
			}
		})
	}
}

// alwaysLent is a loan without the checks.
type alwaysLent struct{ *fakeLoan }

func (alwaysLent) Claim() bool { return true }
func (alwaysLent) Release()    {}

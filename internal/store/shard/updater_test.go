package shard

import (
	"slices"
	"testing"

	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/optim"
)

func newOptimizer(t testing.TB, cfg optim.Config) *optim.Optimizer {
	t.Helper()
	opt, err := optim.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return opt
}

// Another rate keeps the state, another rule begins anew; slots without an optimizer wait for one.
func TestAnUpdaterKeepsTheStateOfTheSameRule(t *testing.T) {
	cfg := denseConfig(2)
	var u updater
	momentum := optim.Config{Name: "sgd", LearningRate: 1, Momentum: 0.9}
	names := newOptimizer(t, momentum).SlotNames()
	u.load(names, 2, []float32{5, 6})
	if u.set(cfg, newOptimizer(t, momentum)) || u.slots()[0].Values[1] != 6 {
		t.Errorf("slots %v that came first: got state %v, want them kept", names, u.slots())
	}
	momentum.LearningRate = 0.5
	if u.set(cfg, newOptimizer(t, momentum)) || u.slots()[0].Values[1] != 6 {
		t.Errorf("another rate: got state %v, want it kept", u.slots())
	}
	if !u.set(cfg, newOptimizer(t, optim.Config{Name: "adam"})) || len(u.slots()) != 2 {
		t.Errorf("another rule: got %d slots, want adam's two, from the beginning", len(u.slots()))
	}
	if err := u.checkSlots(cfg, wire.CodeConflict, "load", names); err == nil {
		t.Error("adam takes the slots of sgd")
	}
}

// The value of a round is the same, bit for bit, whether its sum is whole or still in parts, and
// whether squares are taken on the way.
func TestAnUpdateInPartsIsTheUpdate(t *testing.T) {
	const n = 2*lentPart + 77
	cfg := denseConfig(n)
	grad, first := draw(1, n), draw(2, n)
	after := func(change func(u *updater, pass *optim.Pass, value []float32, s *sum)) []float32 {
		var u updater
		u.set(cfg, newOptimizer(t, optim.Config{Name: "adam", LearningRate: 0.01}))
		value, s := slices.Clone(first), &sum{cfg: cfg}
		for round := range uint64(warmRounds + 3) {
			pass := u.pass(round, 2, wire.RoundRate{}, 1)
			change(&u, &pass, value, s)
			s.reset()
		}
		return value
	}
	two := func(measure bool) func(*updater, *optim.Pass, []float32, *sum) {
		round := uint64(0)
		return func(u *updater, pass *optim.Pass, value []float32, s *sum) {
			for i := range 2 {
				x := slotWith(cfg, uint32(i), 0, grad...)
				x.measure = measure
				s.add(&x, &addition{last: i == 1, over: u.precondition(round), fuse: measure && round > warmRounds})
			}
			if s.norms != nil {
				s.norms.choose(round, !u.cold(round))
			}
			if err := u.update(pass, round, value, s); err != nil {
				t.Fatal(err)
			}
			round++
		}
	}
	want := after(two(false))
	if got := after(two(true)); !slices.Equal(got, want) {
		t.Error("a measured update gives another value")
	}
	out := make([]float32, n)
	got := after(func(u *updater, pass *optim.Pass, value []float32, s *sum) {
		s.claim([]slot{{weight: 1, loan: &fakeLoan{values: grad, claimed: true}}, {weight: 1, loan: &fakeLoan{values: grad, claimed: true}}})
		if err := u.updateLent(pass, value, s, [][]float32{out}); err != nil {
			t.Fatal(err)
		}
	})
	if !slices.Equal(got, want) || !slices.Equal(out, want) {
		t.Error("an update from lent memory gives another value, or writes another one to the worker")
	}
}

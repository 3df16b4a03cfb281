package shard

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/optim"
)

// grouped returns a shard whose workers run on hosts; hosts are lists of ranks.
func grouped(t testing.TB, hosts [][]int, value ...float32) *Shard {
	t.Helper()
	s := dense(t, 0, value...)
	if err := s.SetMembers(1, membersOf(hosts)); err != nil {
		t.Fatal(err)
	}
	return s
}

func membersOf(hosts [][]int) (members []Member) {
	for _, ranks := range hosts {
		for _, r := range ranks {
			m := Member{Node: node(r), Rank: uint32(r)}
			if len(ranks) > 1 {
				m.Group = 1 + uint32(slices.Min(ranks))
			}
			members = append(members, m)
		}
	}
	return members
}

// together is the sum of several contributions to one round, as the worker of the first rank sends
// it.
func together(s *Shard, of ...Contribution) Contribution {
	c := of[0]
	c.Seq, c.Weight, c.Examples, c.Counted, c.Step.Micro, c.Step.MicroSqr = 0, 0, 0, false, 0, 0
	for i, x := range of {
		values := x.Data.Float32s(s.cfg.values())
		contributor := wire.Contributor{Node: x.Node, Seq: x.Seq, Weight: x.Weight, Examples: x.Examples, Counted: x.Counted, Micro: x.Step.Micro, MicroSqr: x.Step.MicroSqr}
		if x.Step.Measure {
			contributor.Sqr = f32.Squares(values)
		}
		if i > 0 {
			f32.AddTo(c.Data.Float32s(s.cfg.values()), values)
			x.Data.Release()
		}
		c.Contributors = append(c.Contributors, contributor)
	}
	slices.SortFunc(c.Contributors, func(a, b wire.Contributor) int { return int(int64(a.Node) - int64(b.Node)) })
	return c
}

// A sum that names workers of two hosts is refused.
func TestASumOfWorkersOfTwoHostsIsRefused(t *testing.T) {
	for _, hosts := range [][][]int{{{0, 1}, {2, 3}}, {{0, 3}, {1}, {2}}} {
		for _, of := range [][]int{{0, 2}, {1, 2}, {0, 1, 2, 3}} {
			s := grouped(t, hosts, 0)
			var parts []Contribution
			for _, r := range of {
				parts = append(parts, contribution(s, r, 0, 1))
			}
			c := together(s, parts...)
			status, err := s.Push(c)
			var refused *Error
			if status != Refused || !errors.As(err, &refused) || refused.Code != wire.CodePushAlone || !strings.Contains(refused.Text, "not of one host") {
				t.Errorf("hosts %v, a sum of ranks %v: got status %d, %v, want it refused", hosts, of, status, err)
			}
			c.Data.Release()
		}
	}
}

// wild returns numbers of very different sizes, whose sums depend on the order.
func wild(random *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(random.NormFloat64() * math.Pow(10, float64(random.IntN(9))))
	}
	return x
}

// The sum of a round depends on the hosts of its workers alone: not on the order of arrival, and
// not on which hosts' gradients come as one sum.
func TestTheSumIsTheSameBitForBitWhoeverAddsUpAHost(t *testing.T) {
	const n = 37
	random := rand.New(rand.NewPCG(5, 6))
	for _, hosts := range [][][]int{{{0, 1}, {2, 3}}, {{0, 3}, {1, 2}, {4}}, {{0}, {1, 2, 3}}, {{0, 1, 2}}} {
		grads := map[int][]float32{}
		want, weight := make([]float32, n), 0.0
		for i, ranks := range hosts {
			sum := make([]float32, n)
			for j, r := range ranks {
				grads[r] = wild(random, n)
				weight += float64(r + 1)
				if j == 0 {
					copy(sum, grads[r])
				} else {
					f32.AddTo(sum, grads[r])
				}
			}
			if i == 0 {
				copy(want, sum)
			} else {
				f32.AddTo(want, sum)
			}
		}
		for asOne := range 1 << len(hosts) {
			var pushes [][]int
			for i, ranks := range hosts {
				if asOne>>i&1 == 1 {
					pushes = append(pushes, ranks)
					continue
				}
				for _, r := range ranks {
					pushes = append(pushes, []int{r})
				}
			}
			permutations(len(pushes), func(order []int) {
				s := grouped(t, hosts, make([]float32, n)...)
				for _, i := range order {
					var all []Contribution
					for _, r := range pushes[i] {
						c := contribution(s, r, 0, grads[r]...)
						c.Weight = float32(r + 1)
						all = append(all, c)
					}
					c := all[0]
					if len(all) > 1 {
						c = together(s, all...)
					}
					mustPush(t, s, c, Held)
				}
				wantValue(t, s, 1, want...)
				if s.readers.current.weight != weight {
					t.Errorf("weight: got %v, want %v", s.readers.current.weight, weight)
				}
				wantNothingHeld(t, s)
			})
		}
	}
}

// Norms are those of the workers' gradients, whoever has added them up.
func TestNormsOfARoundAreThoseOfItsContributors(t *testing.T) {
	hosts := [][]int{{0, 1}, {2, 3}, {4}}
	for _, mode := range []uint8{wire.ModeSync, wire.ModeAnyOrder} {
		for asOne := range 4 {
			s := grouped(t, hosts, make([]float32, normValues)...)
			if err := s.SetMode(mode); err != nil {
				t.Fatal(err)
			}
			setOptimizer(t, s, optim.Config{Name: "sgd"})
			for round := range uint64(3) {
				sum, meanSqr := make([]float32, normValues), 0.0
				for i := range hosts {
					i = (i + int(round)) % len(hosts)
					var all []Contribution
					for _, r := range hosts[i] {
						g := draw(round<<8+uint64(r), normValues)
						f32.AddTo(sum, g)
						c := measuredPush(s, r, round, float32(r+1), g...)
						own := sqr(over(g, nil, 0, 0)) / float64(r+1)
						if r == 3 { // it has measured its two micro-batches
							c.Step.Micro, c.Step.MicroSqr = 2, 2.5
							own = 2.5
						}
						meanSqr += own
						all = append(all, c)
					}
					if asOne>>i&1 == 1 {
						all = []Contribution{together(s, all...)}
					}
					for _, c := range all {
						mustPush(t, s, c, Held)
					}
				}
				wantNorms(t, s, wire.Norms{Count: 6, Examples: 15, MeanSqr: meanSqr / 15, SqrMean: sqr(over(sum, nil, 0, 0)) / 225})
			}
		}
	}
}

// All contributors of a sum are counted, or none.
func TestASumCountsWholeOrNotAtAll(t *testing.T) {
	hosts := [][]int{{0, 1, 2}, {3}}
	start := func(t *testing.T) *Shard { return grouped(t, hosts, 0, 0) }
	sum := func(s *Shard, ranks ...int) Contribution {
		var all []Contribution
		for _, r := range ranks {
			all = append(all, contribution(s, r, 0, 1, float32(r)))
		}
		return together(s, all...)
	}
	alone := contribution
	for _, c := range []struct {
		name string
		do   func(t *testing.T, s *Shard) Contribution
		want wire.Code
	}{
		{"one pushed for itself", func(t *testing.T, s *Shard) Contribution {
			mustPush(t, s, alone(s, 1, 0, 1, 1), Held)
			return sum(s, 0, 1, 2)
		}, wire.CodePushAlone},
		{"one pushed another number", func(t *testing.T, s *Shard) Contribution {
			c := alone(s, 1, 0, 1, 1)
			c.Seq = 5
			mustPush(t, s, c, Held)
			return sum(s, 0, 1, 2)
		}, wire.CodePushAlone},
		{"one is gone", func(t *testing.T, s *Shard) Contribution {
			if err := s.SetMembers(1, membersOf([][]int{{0, 2}, {3}})); err != nil {
				t.Fatal(err)
			}
			return sum(s, 0, 1, 2)
		}, wire.CodePushAlone},
		{"guard", func(t *testing.T, s *Shard) Contribution {
			SetGuard([]*Shard{s}, Guard{})
			return sum(s, 0, 1, 2)
		}, wire.CodePushAlone},
		{"async", func(t *testing.T, s *Shard) Contribution {
			if err := s.SetMode(wire.ModeAsync); err != nil {
				t.Fatal(err)
			}
			return sum(s, 0, 1, 2)
		}, wire.CodePushAlone},
		{"measured with Adam", func(t *testing.T, s *Shard) Contribution {
			setOptimizer(t, s, optim.Config{Name: "adam"})
			c := sum(s, 0, 1, 2)
			c.Step.Measure = true
			return c
		}, wire.CodePushAlone},
		{"another learning rate", func(t *testing.T, s *Shard) Contribution {
			mustPush(t, s, alone(s, 3, 0, 1, 1), Held)
			c := sum(s, 0, 1, 2)
			c.Step.Rate = wire.RoundRate{Scaled: true, Factor: 2}
			return c
		}, wire.CodePushAlone},
		{"the round has closed", func(t *testing.T, s *Shard) Contribution {
			for r := range 4 {
				mustPush(t, s, alone(s, r, 0, 1, 1), Held)
			}
			c := sum(s, 0, 1, 2)
			for i := range c.Contributors {
				c.Contributors[i].Seq = 2
			}
			return c
		}, wire.CodePushAlone},
		{"one is named twice", func(t *testing.T, s *Shard) Contribution { return sum(s, 0, 1, 1) }, wire.CodeMalformed},
		{"the sender is not among them", func(t *testing.T, s *Shard) Contribution {
			c := sum(s, 0, 1)
			c.Node = node(3)
			return c
		}, wire.CodeMalformed},
		{"a number of its own", func(t *testing.T, s *Shard) Contribution {
			c := sum(s, 0, 1)
			c.Seq = 1
			return c
		}, wire.CodeMalformed},
		{"no sequence number", func(t *testing.T, s *Shard) Contribution {
			c := sum(s, 0, 1)
			c.Contributors[1].Seq = 0
			return c
		}, wire.CodeMalformed},
		{"a weight that is not finite", func(t *testing.T, s *Shard) Contribution {
			c := sum(s, 0, 1)
			c.Contributors[1].Weight = float32(math.NaN())
			return c
		}, wire.CodeMalformed},
		{"a norm of a step that is not measured", func(t *testing.T, s *Shard) Contribution {
			c := sum(s, 0, 1)
			c.Contributors[1].Sqr = 1
			return c
		}, wire.CodeMalformed},
		{"a sender that is no worker", func(t *testing.T, s *Shard) Contribution {
			c := sum(s, 0, 1)
			c.Node, c.Contributors[1].Node = 99, 99
			return c
		}, wire.CodeUnknownNode},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := start(t)
			x := c.do(t, s)
			before := fmt.Sprint(s.rounds.open.present, s.rounds.ahead(s.members.ordered()).present, s.rounds.number, s.counts.left)
			refusedPush(t, s, x, c.want)
			if after := fmt.Sprint(s.rounds.open.present, s.rounds.ahead(s.members.ordered()).present, s.rounds.number, s.counts.left); after != before {
				t.Errorf("contributors present, rounds and examples: %s before, %s after", before, after)
			}
		})
	}
	t.Run("again", func(t *testing.T) {
		s := start(t)
		mustPush(t, s, sum(s, 0, 1, 2), Held)
		mustPush(t, s, sum(s, 0, 1, 2), Repeated)
		mustPush(t, s, alone(s, 1, 0, 1, 1), Repeated)
		mustPush(t, s, alone(s, 3, 0, 1, 3), Held)
		wantValue(t, s, 1, 4, 6)
		mustPush(t, s, sum(s, 0, 1, 2), Repeated)
		wantNothingHeld(t, s)
	})
	t.Run("all pushed for themselves", func(t *testing.T) {
		s := start(t)
		for r := range 3 {
			mustPush(t, s, alone(s, r, 0, 1, float32(r)), Held)
		}
		mustPush(t, s, sum(s, 0, 1, 2), Repeated)
	})
	t.Run("a round ahead, and two", func(t *testing.T) {
		s := start(t)
		ahead := sum(s, 0, 1, 2)
		ahead.Round++
		for i := range ahead.Contributors {
			ahead.Contributors[i].Seq++
		}
		far := ahead
		far.Round++
		mustPush(t, s, sum(s, 0, 1, 2), Held)
		mustPush(t, s, ahead, Held)
		far.Data = nil
		far.Contributors = slices.Clone(far.Contributors)
		for i := range far.Contributors {
			far.Contributors[i].Seq++
		}
		far.Data = s.cfg.Pool.Get(8)
		mustPush(t, s, far, Ahead)
		mustPush(t, s, alone(s, 3, 0, 1, 3), Held)
		wantValue(t, s, 1, 4, 6)
	})
}

// A worker of a sum that is lost after the sum came is in it, as if it had pushed for itself, also
// where its slot has the payload.
func TestAContributorThatIsLostLaterCounts(t *testing.T) {
	for lost := range 3 {
		s := grouped(t, [][]int{{0, 1, 2}, {3}}, 0, 0)
		var all []Contribution
		for r := range 3 {
			c := contribution(s, r, 0, 1, float32(r))
			c.Weight, c.Examples, c.Counted = 2, 4, true
			all = append(all, c)
		}
		mustPush(t, s, together(s, all...), Held)
		left := slices.DeleteFunc([]int{0, 1, 2}, func(r int) bool { return r == lost })
		if err := s.SetMembers(2, membersOf([][]int{left, {3}})); err != nil {
			t.Fatal(err)
		}
		c := contribution(s, 3, 0, 1, 3)
		c.Generation = 2
		mustPush(t, s, c, Held)
		wantValue(t, s, 1, 4, 6)
		if got, _ := s.ExamplesOf(node(lost)); got != 4 {
			t.Errorf("rank %d: %d examples counted, want 4", lost, got)
		}
		wantNothingHeld(t, s)
	}
}

// The worker whose gradient came last at its host is charged with the gap, whoever sent the sum.
func TestTheLateWorkerOfASumIsCharged(t *testing.T) {
	meter := &fixedMeter{now: 1000}
	s := grouped(t, [][]int{{0, 1}, {2}}, 0)
	s.cfg.Meter = meter
	mustPush(t, s, contribution(s, 2, 0, 1), Held)
	meter.now = 9000
	c := together(s, contribution(s, 0, 0, 1), contribution(s, 1, 0, 1))
	c.Contributors[0].Early = 7000
	mustPush(t, s, c, Held)
	if len(meter.closed) != 1 || meter.closed[0].Last != node(1) || meter.closed[0].Gap != 7000 {
		t.Errorf("got %+v, want a gap of 7µs for node %d", meter.closed, node(1))
	}
}

type fixedMeter struct {
	now    int64
	closed []Timing
}

func (m *fixedMeter) Now() int64                 { return m.now }
func (m *fixedMeter) Closed(_ *Config, t Timing) { m.closed = append(m.closed, t) }
func (m *fixedMeter) Hold(int64)                 {}

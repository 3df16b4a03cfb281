package shard

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/internal/testing/alloctest"
	"github.com/paragon-train/paragon/optim"
)

// measuredPush makes rank's contribution to a round whose norms are measured.
func measuredPush(s *Shard, rank int, round uint64, weight float32, grad ...float32) Contribution {
	c := contribution(s, rank, round, grad...)
	c.Weight, c.Step.Measure = weight, true
	return c
}

func draw(seed uint64, n int) []float32 {
	random := rand.New(rand.NewPCG(seed, 1))
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(random.NormFloat64())
	}
	return x
}

// over returns x divided as rules of Adam's family do.
func over(x []float32, v []float32, root, epsilon float64) []float64 {
	y := make([]float64, len(x))
	for i := range x {
		y[i] = float64(x[i])
		if v != nil {
			y[i] /= math.Sqrt(float64(v[i]))*root + epsilon
		}
	}
	return y
}

func sqr(x []float64) (sum float64) {
	for _, v := range x {
		sum += v * v
	}
	return sum
}

func wantNorms(t *testing.T, s *Shard, want wire.Norms) {
	t.Helper()
	v, w, err := s.Pull(Want{Round: s.Rounds()})
	if err != nil || w != nil {
		t.Fatal(w, err)
	}
	defer v.Release()
	got := v.Norms()
	near := func(a, b float64) bool { return a == b || math.Abs(a-b) <= 1e-6*math.Abs(b) }
	if got.Count != want.Count || got.Biased != want.Biased || got.Examples != want.Examples || !near(got.MeanSqr, want.MeanSqr) || !near(got.SqrMean, want.SqrMean) {
		t.Errorf("norms of round %d:\n got %+v\nwant %+v", s.Rounds()-1, got, want)
	}
}

const normValues = 2*squaresPart + 37 // several parts, and an end that is no whole vector

// Whatever the codec, the order of arrival, the optimizer and the number of workers: the norms are
// those of the formulas.
func TestNormsOfARoundAreThoseOfItsContributions(t *testing.T) {
	for _, mode := range []uint8{wire.ModeSync, wire.ModeAnyOrder} {
		for _, rule := range []string{"", "sgd", "lars"} {
			for _, codec := range []uint8{wire.CodecFloat32, wire.CodecFloat16, wire.CodecBFloat16} {
				for workers := 2; workers <= 4; workers++ {
					s := dense(t, workers, make([]float32, normValues)...)
					if err := s.SetMode(mode); err != nil {
						t.Fatal(err)
					}
					if rule != "" {
						setOptimizer(t, s, optim.Config{Name: rule, Reduction: optim.Mean})
					}
					for round := range uint64(3) {
						sum := make([]float32, normValues)
						meanSqr, examples := 0.0, 0.0
						grads := make([][]float32, workers)
						for r := range grads {
							grads[r] = draw(round<<8+uint64(r), normValues)
							if codec == wire.CodecFloat16 {
								half := make([]uint16, normValues)
								f32.ToFloat16(half, grads[r])
								f32.FromFloat16(grads[r], half)
							} else if codec == wire.CodecBFloat16 {
								half := make([]uint16, normValues)
								f32.ToBFloat16(half, grads[r])
								f32.FromBFloat16(grads[r], half)
							}
							f32.AddTo(sum, grads[r])
							meanSqr += sqr(over(grads[r], nil, 0, 0)) / float64(r+1)
							examples += float64(r + 1)
						}
						for i := range workers {
							r := (i*3 + int(round)) % workers // 3 and the number of workers are coprime, but for 3 workers
							if workers == 3 {
								r = (i + int(round)) % 3
							}
							c := measuredPush(s, r, round, float32(r+1), grads[r]...)
							if c.Codec = codec; codec == wire.CodecFloat16 {
								f32.ToFloat16(c.Data.uint16s(normValues), grads[r])
							} else if codec == wire.CodecBFloat16 {
								f32.ToBFloat16(c.Data.uint16s(normValues), grads[r])
							}
							mustPush(t, s, c, Held)
						}
						wantNorms(t, s, wire.Norms{Count: uint32(workers), Examples: examples, MeanSqr: meanSqr / examples, SqrMean: sqr(over(sum, nil, 0, 0)) / examples / examples})
					}
				}
			}
		}
	}
}

// Gradients of Adam's family are divided by the root of the second moment before the round, once
// five rounds have made it; before that nothing is measured. Micro-batches then count as one,
// because their norms were taken without it.
func TestNormsArePreconditionedByTheSecondMoment(t *testing.T) {
	for _, rule := range []string{"adam", "adamw", "lamb", "rmsprop"} {
		s := dense(t, 2, make([]float32, normValues)...)
		setOptimizer(t, s, optim.Config{Name: rule, Reduction: optim.Mean})
		for round := range uint64(8) {
			a, b := draw(2*round, normValues), draw(2*round+1, normValues)
			want := wire.Norms{}
			if round >= 5 {
				v, root, epsilon := s.updater.opt.SecondMoment(round, s.updater.state)
				divided := func(x []float32) float64 { return sqr(over(x, v, float64(root), float64(epsilon))) }
				sum := append([]float32(nil), a...)
				f32.AddTo(sum, b)
				want = wire.Norms{Count: 2, Examples: 5, MeanSqr: (divided(a)/2 + divided(b)/3) / 5, SqrMean: divided(sum) / 25}
			}
			x, y := measuredPush(s, 0, round, 2, a...), measuredPush(s, 1, round, 3, b...)
			x.Step.Micro, x.Step.MicroSqr = 4, 1e9
			mustPush(t, s, x, Held)
			mustPush(t, s, y, Held)
			wantNorms(t, s, want)
		}
	}
}

// The last contribution of a round is added by the update. Where a round closes later, it is added
// before: value, state and norms have the same bits.
func TestAMeasuredUpdateIsAdditionAndUpdate(t *testing.T) {
	for _, rule := range []string{"adam", "adamw"} {
		atOnce, later := dense(t, 3, make([]float32, normValues)...), dense(t, 3, make([]float32, normValues)...)
		setOptimizer(t, atOnce, optim.Config{Name: rule, Reduction: optim.Mean, WeightDecay: 0.1})
		setOptimizer(t, later, optim.Config{Name: rule, Reduction: optim.Mean, WeightDecay: 0.1})
		for round := range uint64(9) {
			if _, err := later.BeginFill(); err != nil {
				t.Fatal(err)
			}
			for rank := range 3 {
				for _, s := range []*Shard{atOnce, later} {
					x := measuredPush(s, rank, round, float32(rank+1), draw(3*round+uint64(rank), normValues)...)
					if round == 7 && rank == 2 { // it is in the sum and counts nothing
						x.Weight = 0
					}
					mustPush(t, s, x, Held)
				}
			}
			if atOnce.rounds.number != round+1 || later.rounds.number != round {
				t.Fatalf("rounds %d and %d, want %d and %d", atOnce.rounds.number, later.rounds.number, round+1, round)
			}
			if later.sum.norms.last != nil {
				t.Errorf("%s, round %d: a contribution is not in the sum, though the round stays open", rule, round)
			}
			later.Detach()
			if measured := round >= warmRounds && round != 7; measured != (atOnce.sum.norms.ofNewest().Count == 3) {
				t.Errorf("%s, round %d: norms %+v", rule, round, atOnce.sum.norms.ofNewest())
			}
			if atOnce.sum.norms.ofNewest() != later.sum.norms.ofNewest() {
				t.Errorf("%s, round %d: norms %+v, but %+v with an addition of its own", rule, round, atOnce.sum.norms.ofNewest(), later.sum.norms.ofNewest())
			}
			for i, slot := range atOnce.updater.slots() {
				if !slices.Equal(slot.Values, later.updater.slots()[i].Values) {
					t.Errorf("%s, round %d: %s is another one with an addition of its own", rule, round, slot.Name)
				}
			}
			wantValue(t, atOnce, round+1, later.readers.current.Float32s()...)
			wantNothingHeld(t, atOnce)
		}
	}
}

// A worker's micro-batches count by the norms that it has taken, beside other workers' gradients,
// or alone.
func TestMicroBatchesCountAsContributions(t *testing.T) {
	a, b := draw(1, 50), draw(2, 50)
	s := dense(t, 2, make([]float32, 50)...)
	setOptimizer(t, s, optim.Config{Name: "sgd"})
	x, y := measuredPush(s, 0, 0, 8, a...), measuredPush(s, 1, 0, 2, b...)
	x.Step.Micro, x.Step.MicroSqr = 4, 12.5
	mustPush(t, s, x, Held)
	mustPush(t, s, y, Held)
	sum := append([]float32(nil), a...)
	f32.AddTo(sum, b)
	wantNorms(t, s, wire.Norms{Count: 5, Examples: 10, MeanSqr: (12.5 + sqr(over(b, nil, 0, 0))/2) / 10, SqrMean: sqr(over(sum, nil, 0, 0)) / 100})

	s = dense(t, 1, make([]float32, 50)...)
	x = measuredPush(s, 0, 0, 8, a...)
	x.Step.Micro, x.Step.MicroSqr = 4, math.Inf(1) // a micro-batch overflowed
	mustPush(t, s, x, Held)
	wantNorms(t, s, wire.Norms{Count: 4, Examples: 8, MeanSqr: math.Inf(1), SqrMean: sqr(over(a, nil, 0, 0)) / 64})
}

// With one contribution a round's sum is kept now and then, and the next one measured against it;
// nothing else is ever kept.
func TestOneContributionIsMeasuredAgainstTheRoundBefore(t *testing.T) {
	for _, rule := range []string{"", "sgd", "adam"} {
		s := dense(t, 1, make([]float32, normValues)...)
		if rule != "" {
			setOptimizer(t, s, optim.Config{Name: rule})
		}
		measured := 0
		for round := range uint64(3*differencePeriod + 2) {
			g, h := draw(round, normValues), draw(round-1, normValues)
			weight := float32(1 + round%3)
			want := wire.Norms{}
			if round%differencePeriod == 1 && (rule != "adam" || round > 5) {
				before := float64(1 + (round-1)%3)
				all := before + float64(weight)
				var v []float32
				var root, epsilon float32
				if rule == "adam" {
					v, root, epsilon = s.updater.opt.SecondMoment(round, s.updater.state)
				}
				divided := func(x []float32) float64 { return sqr(over(x, v, float64(root), float64(epsilon))) }
				sum := append([]float32(nil), g...)
				f32.AddTo(sum, h)
				want = wire.Norms{Count: 2, Biased: true, Examples: all, MeanSqr: (divided(h)/before + divided(g)/float64(weight)) / all, SqrMean: divided(sum) / all / all}
				measured++
			}
			mustPush(t, s, measuredPush(s, 0, round, weight, g...), Held)
			wantNorms(t, s, want)
			if isKept := s.sum.norms.keptSum().data != nil; isKept != (round%differencePeriod == 0 && (rule != "adam" || round > 5)) {
				t.Fatalf("%s: after round %d: kept %v", rule, round, isKept)
			}
		}
		if measured < 3 && rule != "adam" {
			t.Errorf("%s: %d rounds were measured", rule, measured)
		}
		wantNothingHeld(t, s)
	}
}

// A kept sum goes with the state that a load replaces, with a round that is not measured, and with
// a second worker.
func TestAKeptSumIsDropped(t *testing.T) {
	for name, end := range map[string]func(s *Shard){
		"load": func(s *Shard) {
			if err := s.WriteState(1, nil, []float32{1, 2}); err != nil {
				t.Fatal(err)
			}
		},
		"plain round": func(s *Shard) { mustPush(t, s, contribution(s, 0, 1, 1, 1), Held) },
		"second worker": func(s *Shard) {
			setWorkers(t, s, 1, 2)
			mustPush(t, s, measuredPush(s, 0, 1, 1, 1, 1), Held)
			mustPush(t, s, measuredPush(s, 1, 1, 1, 1, 1), Held)
		},
	} {
		s := dense(t, 1, 0, 0)
		setOptimizer(t, s, optim.Config{Name: "sgd"})
		mustPush(t, s, measuredPush(s, 0, 0, 1, 3, 4), Held)
		if s.sum.norms.keptSum().data == nil {
			t.Fatalf("%s: nothing was kept of round 0", name)
		}
		end(s)
		if s.sum.norms.keptSum().data != nil {
			t.Errorf("%s: the sum is still kept", name)
		}
		wantNothingHeld(t, s)
	}
	// The first measured round after a load has nothing to be measured against, even if it is
	// the next one.
	s := dense(t, 1, 0, 0)
	mustPush(t, s, measuredPush(s, 0, 0, 1, 3, 4), Held)
	if err := s.WriteState(1, nil, []float32{1, 2}); err != nil {
		t.Fatal(err)
	}
	c := measuredPush(s, 0, 1, 1, 3, 4)
	mustPush(t, s, c, Held)
	wantNorms(t, s, wire.Norms{})
}

// Contributions of weight 0 and those that the guard has refused are left out of both norms; a
// round of nothing else, or to which a contribution did not ask for norms, is not measured. A
// weight of 0 with values other than 0 is in the sum and counts nothing: no norms either.
func TestNormsLeaveOutWhatDoesNotCount(t *testing.T) {
	nan := float32(math.NaN())
	two := wire.Norms{Count: 2, Examples: 3, MeanSqr: (25.0 + 4.0/2) / 3, SqrMean: (25 + 4.0) / 9}
	plain := func(s *Shard, rank int) Contribution { return contribution(s, rank, 0, 0, 0) }
	for _, c := range []struct {
		name  string
		third func(s *Shard, rank int) Contribution
		want  wire.Norms
	}{
		{"weight 0", func(s *Shard, rank int) Contribution { return measuredPush(s, rank, 0, 0, 0, 0) }, two},
		{"refused", func(s *Shard, rank int) Contribution { return measuredPush(s, rank, 0, 7, nan, 1) }, two},
		{"refused, did not ask", func(s *Shard, rank int) Contribution { return contribution(s, rank, 0, nan, 1) }, two},
		{"did not ask", plain, wire.Norms{}},
		{"weight 0, not zeros", func(s *Shard, rank int) Contribution { return measuredPush(s, rank, 0, 0, 1, 0) }, wire.Norms{}},
	} {
		for third := range 3 { // in the first place, in the middle and in the end
			s := dense(t, 3, 0, 0)
			setOptimizer(t, s, optim.Config{Name: "sgd", Reduction: optim.Mean})
			SetGuard([]*Shard{s}, Guard{})
			mustPush(t, s, c.third(s, third), Held)
			mustPush(t, s, measuredPush(s, (third+1)%3, 0, 1, 3, 4), Held)
			mustPush(t, s, measuredPush(s, (third+2)%3, 0, 2, 0, -2), Held)
			want := c.want
			if want.Count > 0 {
				want.SqrMean = (9 + 4.0) / 9 // (3, 4) + (0, −2)
			}
			t.Run(c.name, func(t *testing.T) { wantNorms(t, s, want) })
		}
	}
	s := dense(t, 2, 0, 0)
	SetGuard([]*Shard{s}, Guard{})
	mustPush(t, s, measuredPush(s, 0, 0, 1, nan, 0), Held)
	mustPush(t, s, measuredPush(s, 1, 0, 1, nan, 0), Held)
	wantNorms(t, s, wire.Norms{})
	// Without a guard the norms are not finite, which says so.
	s = dense(t, 2, 0, 0)
	mustPush(t, s, measuredPush(s, 0, 0, 1, nan, 0), Held)
	mustPush(t, s, measuredPush(s, 1, 0, 1, 1, 0), Held)
	v, _, _ := s.Pull(Want{Round: 1})
	if n := v.Norms(); n.Count != 2 || !math.IsNaN(n.MeanSqr) || !math.IsNaN(n.SqrMean) {
		t.Errorf("with a NaN: got %+v", n)
	}
	v.Release()
}

// A clipped contribution is measured as it is added; norms of its micro-batches would be those
// before.
func TestNormsOfAClippedContribution(t *testing.T) {
	for _, micro := range []uint32{0, 2} {
		s := dense(t, 2, 0, 0)
		SetGuard([]*Shard{s}, Guard{Factor: 2, Clip: true, Warmup: 2})
		mustPush(t, s, measuredPush(s, 0, 0, 1, 3, 0), Held)
		mustPush(t, s, measuredPush(s, 1, 0, 1, 3, 0), Held)
		x := measuredPush(s, 0, 1, 1, 100, 0)
		if x.Step.Micro = micro; micro > 0 {
			x.Step.MicroSqr = 1
		}
		mustPush(t, s, x, Held)
		mustPush(t, s, measuredPush(s, 1, 1, 1, 3, 0), Held)
		want := wire.Norms{Count: 2, Examples: 2, MeanSqr: (36 + 9) / 2.0, SqrMean: 81 / 4.0}
		if micro > 0 {
			want = wire.Norms{}
		}
		wantNorms(t, s, want)
	}
}

// A worker that is lost in mid-round counts if its contribution came, whether or not that was in
// the sum already, and else not.
func TestNormsOverAChangeOfMembers(t *testing.T) {
	for lost := range 3 {
		for _, came := range []bool{true, false} {
			s := dense(t, 3, 0, 0)
			setOptimizer(t, s, optim.Config{Name: "sgd"})
			grads := [][]float32{{3, 4}, {0, 1}, {-2, 0}}
			want, sum := wire.Norms{}, [2]float64{}
			for r, g := range grads {
				if r != lost || came {
					want.Count++
					want.Examples++
					want.MeanSqr += float64(g[0]*g[0] + g[1]*g[1])
					sum[0] += float64(g[0])
					sum[1] += float64(g[1])
				}
			}
			want.MeanSqr /= want.Examples
			want.SqrMean = (sum[0]*sum[0] + sum[1]*sum[1]) / (want.Examples * want.Examples)
			if came {
				mustPush(t, s, measuredPush(s, lost, 0, 1, grads[lost]...), Held)
			}
			first, second := (lost+1)%3, (lost+2)%3
			mustPush(t, s, measuredPush(s, first, 0, 1, grads[first]...), Held)
			left := []int{0, 1, 2}
			members(2, s, append(left[:lost:lost], left[lost+1:]...)...)(t)
			mustPush(t, s, at(2, measuredPush(s, first, 0, 1, grads[first]...)), Repeated) // sent again after the change
			mustPush(t, s, at(2, measuredPush(s, second, 0, 1, grads[second]...)), Held)
			wantNorms(t, s, want)
		}
	}
}

// All contributions of a round have one factor, one progress and one gain, those a round ahead
// their own; a repeated one is not held against the round's.
func TestARoundHasOneRate(t *testing.T) {
	rate := func(c Contribution, factor, progress float64) Contribution {
		c.Step.Rate = wire.RoundRate{Scaled: true, Factor: factor, ByProgress: true, Progress: progress}
		return c
	}
	s := dense(t, 3, 10)
	setOptimizer(t, s, optim.Config{Name: "sgd", LearningRate: 1, Schedule: optim.Schedule{Kind: "factor", Every: 2, Factor: 0.5}})
	mustPush(t, s, rate(contribution(s, 1, 0, 1), 2, 0.5), Held)
	mustPush(t, s, rate(contribution(s, 1, 1, 1), 4, 3.5), Held) // a round ahead
	c := rate(contribution(s, 0, 0, 1), 3, 0.5)
	_, err := s.Push(c)
	if code := codeOf(err); code != wire.CodeConflict || !strings.Contains(err.Error(), "factor 3 with the schedule read at progress 0.5") ||
		!strings.Contains(err.Error(), "rank 1 gave learning-rate factor 2 with the schedule read at progress 0.5") {
		t.Fatalf("another factor: got %v", err)
	}
	c.Data.Release()
	refusedPush(t, s, rate(contribution(s, 0, 0, 1), 2, 0.25), wire.CodeConflict)
	refusedPush(t, s, contribution(s, 0, 0, 1), wire.CodeConflict)
	c = rate(contribution(s, 0, 0, 1), 2, 0.5)
	c.Step.Rate.Gain = 1.5
	if _, err := s.Push(c); codeOf(err) != wire.CodeConflict || !strings.Contains(err.Error(), "at progress 0.5 and gain 1.5, but rank 1 gave learning-rate factor 2 with the schedule read at progress 0.5;") {
		t.Fatalf("another gain: got %v", err)
	}
	c.Data.Release()
	mustPush(t, s, rate(contribution(s, 0, 0, 1), 2, 0.5), Held)
	mustPush(t, s, rate(contribution(s, 0, 0, 1), 5, 0.5), Repeated)
	members(2, s, 0, 1)(t) // closes the round over the two
	wantValue(t, s, 1, 10-2*2)
	refusedPush(t, s, at(2, rate(contribution(s, 0, 1, 1), 4, 3)), wire.CodeConflict)
	mustPush(t, s, at(2, rate(contribution(s, 0, 1, 1), 4, 3.5)), Held)
	wantValue(t, s, 2, 6-0.5*4*2)
	mustPush(t, s, at(2, contribution(s, 0, 2, 1)), Held) // the rate is the optimizer's own again
	mustPush(t, s, at(2, contribution(s, 1, 2, 1)), Held)
	wantValue(t, s, 3, 2-0.5*2)
}

func TestStepsAreRefusedByName(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	rows, err := New(Config{Name: "e", Form: wire.FormRows, Rule: wire.RuleOptimizer, Length: 4, Size: 4, RowLen: 2, Shards: 1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	average, err := New(Config{Name: "a", Form: wire.FormDense, Rule: wire.RuleAverage, Length: 1, Size: 1, Shards: 1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	async := dense(t, 1, 0)
	if err := async.SetMode(wire.ModeAsync); err != nil {
		t.Fatal(err)
	}
	setWorkers(t, rows, 1, 1)
	setWorkers(t, average, 1, 1)
	one := dense(t, 1, 0)
	for _, c := range []struct {
		s    *Shard
		step wire.Step
		code wire.Code
		want string
	}{
		{one, wire.Step{Rate: wire.RoundRate{Scaled: true, Factor: -1}}, wire.CodeMalformed, "learning-rate factor -1"},
		{one, wire.Step{Rate: wire.RoundRate{Scaled: true, Factor: nan}}, wire.CodeMalformed, "learning-rate factor NaN"},
		{one, wire.Step{Rate: wire.RoundRate{Scaled: true, Factor: 1 << 21}}, wire.CodeMalformed, "want 0 to 1048576"},
		{one, wire.Step{Rate: wire.RoundRate{Factor: 2}}, wire.CodeMalformed, "0 unless scaled"},
		{one, wire.Step{Rate: wire.RoundRate{ByProgress: true, Progress: inf}}, wire.CodeMalformed, "progress +Inf"},
		{one, wire.Step{Rate: wire.RoundRate{ByProgress: true, Progress: -1}}, wire.CodeMalformed, "progress -1"},
		{one, wire.Step{Rate: wire.RoundRate{Progress: 1}}, wire.CodeMalformed, "0 unless by progress"},
		{one, wire.Step{Rate: wire.RoundRate{Gain: -1}}, wire.CodeMalformed, "gain -1"},
		{one, wire.Step{Rate: wire.RoundRate{Gain: nan}}, wire.CodeMalformed, "gain NaN"},
		{one, wire.Step{Rate: wire.RoundRate{Gain: 1 << 21}}, wire.CodeMalformed, "want 0 to 1048576"},
		{one, wire.Step{Measure: true, Micro: wire.MaxMicro + 1}, wire.CodeMalformed, "65536 micro-gradients"},
		{one, wire.Step{Micro: 2}, wire.CodeMalformed, "0 unless measured"},
		{one, wire.Step{Measure: true, Micro: 2, MicroSqr: -1}, wire.CodeMalformed, "-1 as the squared norms"},
		{one, wire.Step{Measure: true, Micro: 2, MicroSqr: nan}, wire.CodeMalformed, "NaN as the squared norms"},
		{one, wire.Step{Measure: true, MicroSqr: 1}, wire.CodeMalformed, "0 unless there are several"},
		{rows, wire.Step{Measure: true}, wire.CodeUnsupported, "keys of rows are not measured"},
		{average, wire.Step{Measure: true}, wire.CodeUnsupported, "averaged keys are not measured"},
		{async, wire.Step{Measure: true}, wire.CodeUnsupported, "async mode"},
	} {
		x := contribution(c.s, 0, 0, 1)
		if c.s == rows {
			x.Data.Release()
			x.Data = nil
		}
		x.Step = c.step
		_, err := c.s.Push(x)
		if codeOf(err) != c.code || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: got %v, want code %d and %q", c.step, err, c.code, c.want)
		}
	}
	for _, codec := range []uint8{wire.Codec2Bit, wire.Codec1Bit, wire.CodecTopK} {
		x := measuredPush(one, 0, 0, 1, 1)
		if x.Codec = codec; codec == wire.Codec2Bit {
			x.Threshold = 1
		}
		refusedPush(t, one, x, wire.CodeUnsupported)
	}
}

// A gain reaches the optimizer of dense shards and of rows. The second moment, by which norms are
// divided, is that of the initial batch.
func TestGainsReachTheSecondMoment(t *testing.T) {
	cfg := optim.Config{Name: "adam", LearningRate: 0.5, Reduction: optim.Mean}
	o, err := optim.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	table, err := New(Config{Name: "e", Form: wire.FormRows, Rule: wire.RuleOptimizer, Length: 4, Size: 4, RowLen: 2, Shards: 1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	setWorkers(t, table, 1, 1)
	for name, s := range map[string]*Shard{"dense": dense(t, 1, 0, 0), "rows": table} {
		setOptimizer(t, s, cfg)
		value, state := make([]float32, 2), o.NewState(2)
		for round := range uint64(4) {
			gain := []float64{0, 1, 4, 0.5}[round]
			pass := o.At(round, 0.5, optim.Factors{LearningRate: 1, WeightDecay: 1}) // the mean over two examples
			if gain > 0 {
				pass = pass.WithGain(gain)
			}
			grad := []float32{3, -1 - float32(round)}
			if err := pass.Update(value, grad, state); err != nil {
				t.Fatal(err)
			}
			c := contribution(s, 0, round, grad...)
			if name == "rows" {
				c.Data.Release()
				c.Rows, c.Data = 1, s.cfg.Pool.Get(RowsPayloadSize(1, 2))
				c.Data.Int64s(1)[0] = 0
				copy(c.Data.Float32s(4)[2:], grad)
			}
			c.Weight, c.Step.Rate.Gain = 2, gain
			mustPush(t, s, c, Held)
			if got := s.updater.slots()[1].Values[:2]; !slices.Equal(got, state.Slot("variance")) {
				t.Fatalf("%s, round %d, gain %v: second moment %v, want %v", name, round, gain, got, state.Slot("variance"))
			}
			if got := s.readers.current.Float32s()[:2]; !slices.Equal(got, value) {
				t.Fatalf("%s, round %d, gain %v: value %v, want %v", name, round, gain, got, value)
			}
		}
	}
}

// A factor reaches rows, in their table or an open vocabulary, and pushes of an asynchronous shard.
func TestRatesOfRowsAndOfAsynchronousPushes(t *testing.T) {
	step := wire.Step{Rate: wire.RoundRate{Scaled: true, Factor: 3}}
	for _, form := range []uint8{wire.FormRows, wire.FormOpen} {
		cfg := Config{Name: "e", Form: form, Rule: wire.RuleOptimizer, RowLen: 1, Shards: 1}
		if form == wire.FormRows {
			cfg.Length, cfg.Size = 2, 2
		}
		s, err := New(cfg, nil)
		if err != nil {
			t.Fatal(err)
		}
		setWorkers(t, s, 1, 1)
		setOptimizer(t, s, optim.Config{Name: "test", LearningRate: 0.5})
		c := contribution(s, 0, 0)
		c.Rows, c.Data, c.Step = 1, s.cfg.Pool.Get(RowsPayloadSize(1, 1)), step
		c.Data.Int64s(1)[0] = 1
		c.Data.Float32s(3)[2] = 4
		mustPush(t, s, c, Held)
		out := make([]float32, 1)
		if _, _, err := s.PullRows([]int64{1}, out); err != nil || out[0] != 6 {
			t.Errorf("form %d: got %v, %v; want 6", form, out, err)
		}
	}
	s := dense(t, 1, 0)
	if err := s.SetMode(wire.ModeAsync); err != nil {
		t.Fatal(err)
	}
	setOptimizer(t, s, optim.Config{Name: "test", LearningRate: 0.5})
	c := contribution(s, 0, 0, 4)
	c.Step = step
	mustPush(t, s, c, Held)
	wantValue(t, s, 1, 6)
}

func TestMeasuredRoundsAllocateNothing(t *testing.T) {
	for _, rule := range []string{"sgd", "adam"} {
		for workers, micro := range map[int]uint32{1: 0, 2: 0, 3: 2} {
			s := dense(t, workers, make([]float32, 1000)...)
			setOptimizer(t, s, optim.Config{Name: rule})
			round := uint64(0)
			period := func() { // with one worker a sum is kept and another one measured against it
				for range differencePeriod {
					for r := range workers {
						c := Contribution{Generation: 1, Node: node(r), Seq: round + 1, Round: round, Weight: 1, Data: s.cfg.Pool.Get(4000), Step: wire.Step{Measure: true, Micro: micro}}
						if status, err := s.Push(c); status != Held || err != nil {
							t.Fatal(status, err)
						}
					}
					round++
				}
			}
			for range 3 {
				period()
			}
			if got := alloctest.PerRun(10, period); got != 0 {
				t.Errorf("%s, %d workers: allocations of %d rounds: got %v, want 0", rule, workers, differencePeriod, got)
			}
		}
	}
}

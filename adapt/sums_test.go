package adapt

import (
	"math"
	"math/rand/v2"
	"testing"
)

// block is one block of measurements as Evidence keeps it: its weight and the means of Sqr and Var.
type block struct{ w, x, y float64 }

// The sums are those that the fields' comments say, over all blocks but the first, which sets the
// unit.
func TestEvidenceIsTheSumOverItsBlocks(t *testing.T) {
	given := []block{{.01, 3, 5}, {.02, 4, 6}, {.01, 1, 2}, {.03, -1, 3}, {.02, .5, .25}}
	const keep = .5
	for _, decays := range []int{0, 1} {
		var v Evidence
		v.close(.1, 0, 0) // no gradient
		unit := 0.0
		var blocks []block
		for _, b := range given {
			if v.close(b.w, b.x, b.y); unit == 0 {
				unit = b.x + b.y
				continue
			}
			blocks = append(blocks, block{b.w, b.x / unit, b.y / unit})
			unit += (b.x + b.y - unit) / 8
		}
		share, square := 1.0, 1.0
		for range decays {
			v.decay(keep)
			share, square = share*keep, square*keep*keep
		}
		want := Evidence{Unit: unit, Blocks: len(blocks)}
		for i, b := range blocks {
			want.Weight += share * b.w
			want.Sqr += share * b.w * b.x
			want.Var += share * b.w * b.y
			ww := square * b.w * b.w
			want.Weight2 += ww
			want.Sqr2 += ww * b.x
			want.Var2 += ww * b.y
			want.SqrSqr += ww * b.x * b.x
			want.SqrVar += ww * b.x * b.y
			want.VarVar += ww * b.y * b.y
			if i > 0 {
				a := blocks[i-1]
				lag := square * a.w * b.w
				want.Lag += lag
				want.LagSqr += lag * (a.x + b.x) / 2
				want.LagVar += lag * (a.y + b.y) / 2
				want.LagSqrSqr += lag * a.x * b.x
				want.LagSqrVar += lag * (a.x*b.y + b.x*a.y) / 2
				want.LagVarVar += lag * a.y * b.y
			}
		}
		last := blocks[len(blocks)-1]
		want.Last = Sums{last.x, last.y, share * last.w}
		got := [...]float64{v.Unit, v.Weight, v.Weight2, v.Sqr, v.Var, v.Sqr2, v.Var2, v.SqrSqr, v.SqrVar, v.VarVar, v.Lag, v.LagSqr, v.LagVar, v.LagSqrSqr, v.LagSqrVar, v.LagVarVar, v.Last.Sqr, v.Last.Var, v.Last.Weight}
		for i, x := range [...]float64{want.Unit, want.Weight, want.Weight2, want.Sqr, want.Var, want.Sqr2, want.Var2, want.SqrSqr, want.SqrVar, want.VarVar, want.Lag, want.LagSqr, want.LagVar, want.LagSqrSqr, want.LagSqrVar, want.LagVarVar, want.Last.Sqr, want.Last.Var, want.Last.Weight} {
			if !near(got[i], x, 1e-12) {
				t.Errorf("%d decays: number %d: got %g, want %g of %+v", decays, i, got[i], x, want)
			}
		}
		if v.Blocks != want.Blocks {
			t.Errorf("got %d blocks, want %d", v.Blocks, want.Blocks)
		}

		// The spread of a·x + b·y around its mean, weighted by the squares of the weights,
		// and that of neighbours.
		for _, c := range [][2]float64{{1, 1}, {.7, -.3}, {0, 1}, {-2, .5}} {
			mean, weight, own, ownWeight, lag, lagWeight := 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
			value := func(b block) float64 { return c[0]*b.x + c[1]*b.y }
			for _, b := range blocks {
				mean += b.w * value(b)
				weight += b.w
			}
			mean /= weight
			for i, b := range blocks {
				own += b.w * b.w * (value(b) - mean) * (value(b) - mean)
				ownWeight += b.w * b.w
				if i > 0 {
					a := blocks[i-1]
					lag += a.w * b.w * (value(a) - mean) * (value(b) - mean)
					lagWeight += a.w * b.w
				}
			}
			gotOwn, gotLag := v.spread(c[0], c[1])
			if !near(gotOwn, own/ownWeight, 1e-9) || math.Abs(gotLag-lag/lagWeight) > 1e-9*own/ownWeight {
				t.Errorf("spread of %v: got %g and %g, want %g and %g", c, gotOwn, gotLag, own/ownWeight, lag/lagWeight)
			}
		}
	}
}

// The part, its error and the samples, by the formulas of estimate, from blocks of equal weight.
func TestTheEstimateIsThatOfItsBlocks(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, tc := range []struct {
		n       int
		alike   float64 // how much a block is like the one before
		samples float64 // 0: as many as the correlation leaves
	}{{12, 0, 0}, {30, 0, 0}, {40, .5, 0}, {60, .99, 0}, {1, 0, -1}, {2, 0, -1}} {
		v := Evidence{Unit: 1}
		var list []block
		x, y := 1.0, 2.0
		for range tc.n {
			x = tc.alike*x + (1-tc.alike)*(1+rng.NormFloat64()/3)
			y = tc.alike*y + (1-tc.alike)*(2+rng.NormFloat64()/3)
			v.Unit = 1 // all in one unit
			v.close(.001, x, y)
			list = append(list, block{.001, x, y})
		}
		part, err, samples := v.estimate()
		if tc.samples < 0 {
			if part != 0 || err != 0 || samples != 0 {
				t.Errorf("%d blocks: got %g ± %g of %g samples, want none", tc.n, part, err, samples)
			}
			continue
		}
		n := float64(tc.n)
		q, total := 0.0, 0.0
		for _, b := range list {
			q += b.x / n
			total += (b.x + b.y) / n
		}
		q /= total
		own, lag, around := 0.0, 0.0, 0.0
		for i, b := range list {
			r := b.x - q*(b.x+b.y)
			own += r * r / n
			around += (b.x + b.y - total) * (b.x + b.y - total) / n
			if i > 0 {
				a := list[i-1]
				lag += r * (a.x - q*(a.x+a.y)) / (n - 1)
			}
		}
		rho := 1 / n
		if lag > 0 {
			rho += lag / own
		}
		rho = math.Min(rho, .8)
		wantSamples := n * (1 - rho) / (1 + rho)
		least := math.Max(total-student(wantSamples-1)*math.Sqrt(around/(wantSamples-1)), total/2)
		if wantErr := math.Sqrt(own/(wantSamples-1)) / least; !near(part, q, 1e-9) || !near(samples, wantSamples, 1e-6) || !near(err, wantErr, 1e-6) {
			t.Errorf("%d blocks: got %g ± %g of %g samples, want %g ± %g of %g", tc.n, part, err, samples, q, wantErr, wantSamples)
		}
		if bound, ok := v.bound(); !ok || !near(bound, math.Min(q+student(wantSamples-1)*err, 1), 1e-9) {
			t.Errorf("%d blocks: the bound is %g, %t", tc.n, bound, ok)
		}
	}
	// Student's quantiles of 95 %, from tables.
	for freedom, want := range map[float64]float64{3: 2.353, 5: 2.015, 10: 1.812, 30: 1.697, 100: 1.660, 1e6: 1.645} {
		if got := student(freedom); math.Abs(got-want) > .01 {
			t.Errorf("%g degrees of freedom: got %.4f, want %.3f", freedom, got, want)
		}
	}
	if one, two := student(1), student(2); math.Abs(one-5.57) > .01 || math.Abs(two-2.89) > .01 {
		t.Errorf("of one and two degrees of freedom: got %.3f and %.3f, want 5.57 and 2.89", one, two)
	}
}

// A block is of four measurements, or of one that stands apart.
func TestABlockIsOfFourMeasurements(t *testing.T) {
	var v Evidence
	for i := range 12 {
		v.add(Noise{Sqr: 1, Var: 2}, .1, false)
		if want := max((i+1)/4-1, 0); v.Blocks != want || v.Count != (i+1)%4 {
			t.Errorf("after %d measurements: %d blocks and %d of the next, want %d and %d", i+1, v.Blocks, v.Count, want, (i+1)%4)
		}
	}
	v.add(Noise{Sqr: 9, Var: 9}, .1, false) // is dropped
	v.add(Noise{Sqr: 1, Var: 5}, .1, true)
	if v.Blocks != 3 || v.Count != 0 || v.Open != (Sums{}) || !near(v.Last.Sqr, 1./3, 1e-12) || !near(v.Last.Var, 5./3, 1e-12) || v.Last.Weight != .1 {
		t.Errorf("after one that stands apart: got %+v", v)
	}
	v.add(Noise{Sqr: 3, Var: 3}, .1, false)
	v.add(Noise{Sqr: 1, Var: 7}, .2, false)
	if v.Count != 2 || !near(v.Open.Sqr, .5, 1e-12) || !near(v.Open.Var, 1.7, 1e-12) || !near(v.Open.Weight, .3, 1e-12) {
		t.Errorf("of an open block: got %+v, %d", v.Open, v.Count)
	}
	v.Weight = leastWeight / 2
	if v.decay(.9); v != (Evidence{}) {
		t.Errorf("blocks that count for nothing: got %+v, want none", v)
	}
}

// What is restored is checked: numbers at the bounds are taken, beyond them refused.
func TestStatesAreTakenUpToTheirBounds(t *testing.T) {
	good := State{Sqr: 1, Var: 1, Weight: .5}
	with := func(edit func(s *State)) State { s := good; edit(&s); return s }
	for _, tc := range []struct {
		name string
		s    State
		ok   bool
	}{
		{"nothing", State{}, true},
		{"weight 1", with(func(s *State) { s.Weight = 1 }), true},
		{"weight above 1", with(func(s *State) { s.Weight = math.Nextafter(1, 2) }), false},
		{"all of it without bias", with(func(s *State) { s.Biased, s.Unbiased = true, Sums{1, 1, .5} }), true},
		{"none of it without bias", with(func(s *State) { s.Biased = true }), true},
		{"more without bias than there is", with(func(s *State) { s.Biased, s.Unbiased = true, Sums{1, 1, math.Nextafter(.5, 1)} }), false},
		{"a weight below 0 without bias", with(func(s *State) { s.Biased, s.Unbiased = true, Sums{1, 1, -.1} }), false},
		{"averages without bias that are not finite", with(func(s *State) { s.Biased, s.Unbiased = true, Sums{1e300, 1, 1e-300} }), false},
		{"variances without bias that are not finite", with(func(s *State) { s.Biased, s.Unbiased = true, Sums{1, 1e300, 1e-300} }), false},
		{"a variance that is not finite", with(func(s *State) { s.Var, s.Weight = 1e300, 1e-300 }), false},
		{"weights of 1", with(func(s *State) { s.Evidence.Weight, s.Evidence.Weight2 = 1, 1 }), true},
		{"a weight above 1", with(func(s *State) { s.Evidence.Weight = 1.1 }), false},
		{"a square above 1", with(func(s *State) { s.Evidence.Weight2 = 1.1 }), false},
		{"a square below 0", with(func(s *State) { s.Evidence.Weight2 = -.1 }), false},
		{"a unit below 0", with(func(s *State) { s.Evidence.Unit = -.1 }), false},
		{"an open weight below 0", with(func(s *State) { s.Evidence.Open.Weight = -.1 }), false},
		{"a last weight below 0", with(func(s *State) { s.Evidence.Last.Weight = -.1 }), false},
		{"a lag below 0", with(func(s *State) { s.Evidence.Lag = -.1 }), false},
		{"squares of signals below 0", with(func(s *State) { s.Evidence.SqrSqr = -.1 }), false},
		{"squares of variances below 0", with(func(s *State) { s.Evidence.VarVar = -.1 }), false},
		{"three of the next block", with(func(s *State) { s.Evidence.Count = 3 }), true},
		{"four of the next block", with(func(s *State) { s.Evidence.Count = 4 }), false},
		{"fewer than none", with(func(s *State) { s.Evidence.Count = -1 }), false},
		{"signals below 0", with(func(s *State) { s.Evidence.Sqr, s.Evidence.LagSqr, s.Evidence.SqrVar = -1, -1, -1 }), true},
	} {
		if err := NewEstimator(0).Restore(tc.s); (err == nil) != tc.ok {
			t.Errorf("%s: got %v, want it taken: %t", tc.name, err, tc.ok)
		}
	}
}

func TestProfilesAreTakenUpToTheirBounds(t *testing.T) {
	good := ProfileEntry{Nodes: 1, Replicas: 2, LocalBatch: 8, Computed: 1, Computing: .5, Steps: 1, Closing: 1}
	for _, tc := range []struct {
		name string
		edit func(e *ProfileEntry)
		ok   bool
	}{
		{"one of each", func(e *ProfileEntry) {}, true},
		{"never closed", func(e *ProfileEntry) { e.Steps, e.Closing = 0, 0 }, true},
		{"never computed", func(e *ProfileEntry) { e.Computed, e.Computing = 0, 0 }, true},
		{"steps without time", func(e *ProfileEntry) { e.Closing = 0 }, false},
		{"time without steps", func(e *ProfileEntry) { e.Steps = 0 }, false},
		{"computed without time", func(e *ProfileEntry) { e.Computing = 0 }, false},
		{"time without computed", func(e *ProfileEntry) { e.Computed = 0 }, false},
		{"steps below 0", func(e *ProfileEntry) { e.Steps, e.Closing = -1, 0 }, false},
		{"computed below 0", func(e *ProfileEntry) { e.Computed, e.Computing = -1, 0 }, false},
		{"endless steps", func(e *ProfileEntry) { e.Closing = math.Inf(1) }, false},
		{"endless computing", func(e *ProfileEntry) { e.Computing = math.Inf(1) }, false},
	} {
		e := good
		tc.edit(&e)
		if err := new(Profile).Restore([]ProfileEntry{e}); (err == nil) != tc.ok {
			t.Errorf("%s: got %v, want it taken: %t", tc.name, err, tc.ok)
		}
	}
	var p Profile
	others := []ProfileEntry{{Nodes: 2}, {Replicas: 3}, {Servers: 1}, {LocalBatch: 9}}
	entries := []ProfileEntry{good}
	for _, o := range others {
		e := good
		e.Nodes, e.Replicas, e.Servers, e.LocalBatch = max(o.Nodes, 1), max(o.Replicas, 2), o.Servers, max(o.LocalBatch, 8)
		entries = append(entries, e)
	}
	if err := p.Restore(entries); err != nil || len(p.Entries()) != 5 {
		t.Errorf("entries that differ in one number each: got %v and %d of them", err, len(p.Entries()))
	}
	if err := p.Restore([]ProfileEntry{good, entries[1], good}); err == nil {
		t.Error("an entry that is there twice was taken")
	}
}

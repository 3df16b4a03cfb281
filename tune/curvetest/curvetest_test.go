package curvetest

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/paragon-train/paragon/tune"
)

func all() []Problem { return append(Tuning(), Judging()...) }

func draw(t *testing.T, p *Problem, n int) []tune.Params {
	t.Helper()
	rng := rand.New(rand.NewPCG(7, 8))
	points := make([]tune.Params, n)
	for i := range points {
		var err error
		if points[i], err = p.Space.Sample(rng, tune.Params{}); err != nil {
			t.Fatal(err)
		}
	}
	return points
}

// Each kind has two problems for tuning and two for judging, over spaces of two to eight
// parameters, all different.
func TestEachKindHasItsProblems(t *testing.T) {
	names := make(map[string]bool)
	for _, set := range [][]Problem{Tuning(), Judging()} {
		kinds := make(map[string]int)
		for _, p := range set {
			if err := p.Space.Validate(); err != nil {
				t.Errorf("%s: %v", p.Name, err)
			}
			if n := len(p.Space); n < 2 || n > 8 {
				t.Errorf("%s has %d parameters, want 2 to 8", p.Name, n)
			}
			if names[p.Name] {
				t.Errorf("%s is there twice", p.Name)
			}
			names[p.Name] = true
			kinds[p.Kind]++
		}
		for _, kind := range Kinds() {
			if kinds[kind] != 2 {
				t.Errorf("%d problems are %s, want 2", kinds[kind], kind)
			}
		}
	}
}

// The best final accuracy is that of a point of the space, and no point has a better one.
func TestTheBestFinalAccuracyIsKnown(t *testing.T) {
	for _, p := range all() {
		best, err := p.Space.Fill(tune.Params{}, func(q tune.Param, _ tune.Params) (any, error) {
			for _, a := range p.surface.axes {
				if a.param.Name != q.Name {
					continue
				}
				for v, cost := range a.costs {
					if cost == 0 {
						return v, nil
					}
				}
				return q.FromUnit(a.at), nil
			}
			return nil, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Final(best); math.Abs(got-p.Best) > 1e-6 {
			t.Errorf("%s: the best point %v ends at %v, want %v", p.Name, best, got, p.Best)
		}
		for _, q := range draw(t, &p, 2000) {
			if got := p.Final(q); got > p.Best+1e-9 || got < 0 {
				t.Errorf("%s: %v ends at %v, want 0 to %v", p.Name, q, got, p.Best)
			}
		}
	}
}

// Accuracies are numbers from 0 to 100 at all steps, but after a divergence, and the same for the
// same seed.
func TestCurvesAreAccuracies(t *testing.T) {
	for _, p := range all() {
		again := Draw(p.Kind, seedOf(p.Name))
		for i, q := range draw(t, &p, 100) {
			steps := p.Steps(q)
			if steps < 1 || steps > p.Last {
				t.Fatalf("%s: %v has %d steps, want 1 to %d", p.Name, q, steps, p.Last)
			}
			if s := p.Seconds(q); s < 0.5 || s > 2.3 {
				t.Errorf("%s: %v takes %v seconds a step", p.Name, q, s)
			}
			for step := 1; step <= steps; step++ {
				v, w := p.Value(q, step, uint64(i)), again.Value(q, step, uint64(i))
				if v != w && !(math.IsNaN(v) && math.IsNaN(w)) {
					t.Fatalf("%s drawn again has %v at step %d of %v, want %v", p.Name, w, step, q, v)
				}
				if math.IsNaN(v) && p.Kind != Divergence || v < 0 || v > 100 {
					t.Fatalf("%s: %v reports %v at step %d", p.Name, q, v, step)
				}
			}
		}
	}
}

func seedOf(name string) uint64 { return uint64(name[len(name)-1] - '0') }

// ranks are the places of values in their order.
func ranks(values []float64) []float64 {
	order := make([]int, len(values))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(values[a], values[b]) })
	r := make([]float64, len(values))
	for place, i := range order {
		r[i] = float64(place)
	}
	return r
}

// correlation is the rank correlation of two lists.
func correlation(a, b []float64) float64 {
	x, y := ranks(a), ranks(b)
	n, sum := float64(len(x)), 0.0
	for i := range x {
		sum += (x[i] - y[i]) * (x[i] - y[i])
	}
	return 1 - 6*sum/(n*(n*n-1))
}

// early is the rank correlation of the reports at a part of the steps with the final accuracy, over
// the trainings that would be the better half if none diverged.
func early(t *testing.T, p *Problem, part float64) float64 {
	points := draw(t, p, 800)
	slices.SortStableFunc(points, func(a, b tune.Params) int { return cmp.Compare(p.place(b).final, p.place(a).final) })
	var first, last []float64
	for i, q := range points[:400] {
		v := p.Value(q, max(int(math.Ceil(part*float64(p.Steps(q)))), 1), uint64(i))
		if math.IsNaN(v) {
			v = 0
		}
		first, last = append(first, v), append(last, p.Final(q))
	}
	return correlation(first, last)
}

// What an early report says about the end is what the kinds' comments and the design note say.
func TestKindsDifferInWhatAnEarlyReportSays(t *testing.T) {
	// want has the least and the greatest mean over the kind's problems of the rank correlation
	// with the end, at a ninth and at a third of the steps.
	want := map[string][4]float64{
		Steady:     {0.75, 0.9, 0.85, 1},
		Crossing:   {0, 0.3, 0.3, 0.55},
		Late:       {0, 0.3, 0.2, 0.4},
		Divergence: {-0.5, -0.2, -0.25, 0.05},
		Noise:      {0.5, 0.7, 0.7, 0.85},
		Plateaus:   {0.4, 0.65, 0.4, 0.65},
		Phases:     {0.5, 0.75, 0.5, 0.75},
		Lengths:    {0.4, 0.65, 0.65, 0.85},
	}
	got := make(map[string][2]float64)
	for _, p := range all() {
		c := got[p.Kind]
		c[0] += early(t, &p, 1.0/9) / 4
		c[1] += early(t, &p, 1.0/3) / 4
		got[p.Kind] = c
	}
	for _, kind := range Kinds() {
		w, c := want[kind], got[kind]
		if c[0] < w[0] || c[0] > w[1] || c[1] < w[2] || c[1] > w[3] {
			t.Errorf("%s: rank correlation %.2f at a ninth and %.2f at a third of the steps, want %v to %v and %v to %v", kind, c[0], c[1], w[0], w[1], w[2], w[3])
		}
	}
}

package forecast

import (
	"math"
	"math/rand/v2"
	"testing"
)

// saturating is the curve of a trial whose end and speed follow from its two parameters, up to step
// steps of 40.
func saturating(x []float64, steps int, rng *rand.Rand) Curve {
	c := Curve{X: x}
	top := 90 - 60*((x[0]-0.3)*(x[0]-0.3)+0.5*(x[1]-0.6)*(x[1]-0.6))
	for s := 1; s <= steps; s++ {
		c.Steps = append(c.Steps, s)
		c.Scores = append(c.Scores, top-60*math.Exp(-(0.05+0.2*x[1])*float64(s))+0.2*rng.NormFloat64())
	}
	if steps == 40 {
		c.Ended, c.Final = true, c.Scores[39]
	}
	return c
}

func population(n int, seed uint64, steps func(i int) int) []Curve {
	rng := rand.New(rand.NewPCG(seed, 1))
	var all []Curve
	for i := range n {
		all = append(all, saturating([]float64{rng.Float64(), rng.Float64()}, steps(i), rng))
	}
	return all
}

// Of trials that are half-way the end must be predicted better than by their values alone, and
// seldom outside of three deviations.
func TestEndsArePredictedWithinTheirDeviations(t *testing.T) {
	for _, step := range []int{2, 5, 20} {
		inside, n := 0, 0
		wrong, naive := 0.0, 0.0
		for seed := range uint64(10) {
			m := Fit(population(24, seed, func(int) int { return 40 }), nil)
			rng := rand.New(rand.NewPCG(seed, 99))
			for range 10 {
				x := []float64{rng.Float64(), rng.Float64()}
				whole := saturating(x, 40, rng)
				part := Curve{X: x, Steps: whole.Steps[:step], Scores: whole.Scores[:step]}
				end, want := m.End(&part), m.Unit(whole.Final)
				if n++; math.Abs(end.Mean-want) < 3*end.Deviation {
					inside++
				}
				wrong += (m.Score(end.Mean) - whole.Final) * (m.Score(end.Mean) - whole.Final)
				naive += (part.Scores[step-1] - whole.Final) * (part.Scores[step-1] - whole.Final)
			}
		}
		t.Logf("from step %d: %d of %d within three deviations, mean error %.2f, of the value itself %.2f", step, inside, n, math.Sqrt(wrong/float64(n)), math.Sqrt(naive/float64(n)))
		if inside < n*90/100 || wrong > naive/4 {
			t.Errorf("from step %d: %d of %d within three deviations, mean square error %.3f, of the value itself %.3f", step, inside, n, wrong/float64(n), naive/float64(n))
		}
	}
}

// A trial that was stopped counts by what its steps tell: its end is drawn towards what it would
// have been, and it weighs less than one that ended.
func TestAStoppedTrialCountsByWhatItTells(t *testing.T) {
	curves := population(40, 3, func(i int) int {
		if i%2 == 0 {
			return 40
		}
		return 3
	})
	m := Fit(curves, nil)
	ends, weights := m.Ends(), m.Weights()
	wrong, spreadOfEnds := 0.0, 0.0
	for i := range curves {
		if curves[i].Ended {
			if weights[i] != 1 {
				t.Errorf("trial %d ended and weighs %v", i, weights[i])
			}
			continue
		}
		if !(weights[i] >= 0 && weights[i] < 1) {
			t.Errorf("trial %d was stopped and weighs %v", i, weights[i])
		}
		want := m.Unit(saturating(curves[i].X, 40, rand.New(rand.NewPCG(1, 1))).Final)
		wrong += (ends[i] - want) * (ends[i] - want)
		spreadOfEnds += want * want
	}
	if wrong > 0.2*spreadOfEnds {
		t.Errorf("ends of stopped trials: squared error %.3f of %.3f", wrong, spreadOfEnds)
	}
}

// Values that tell nothing must leave a prediction at what the parameters tell, which counts once:
// the regressions see the parameters, too.
func TestValuesThatTellNothingMoveNoPrediction(t *testing.T) {
	blind := func(x []float64, steps int, rng *rand.Rand) Curve {
		c := saturating(x, steps, rng)
		for i := range c.Scores {
			c.Scores[i] = 10 + 0.2*rng.NormFloat64()
		}
		c.Final = 50 + 40*x[0] + 0.2*rng.NormFloat64()
		return c
	}
	rng := rand.New(rand.NewPCG(17, 1))
	var all []Curve
	for range 24 {
		all = append(all, blind([]float64{rng.Float64(), rng.Float64()}, 40, rng))
	}
	m := Fit(all, nil)
	for _, x := range [][]float64{{0.05, 0.5}, {0.5, 0.2}, {0.95, 0.8}} {
		part := blind(x, 12, rng)
		prior, end := m.Prior(x), m.End(&part)
		if math.Abs(end.Mean-prior.Mean) > 0.5*prior.Deviation || end.Deviation < 0.7*prior.Deviation {
			t.Errorf("at %v: %v by the parameters, %v with values that tell nothing", x, prior, end)
		}
		if told, ok := m.Likelihood(&part); ok && told.Deviation < 1 {
			t.Errorf("at %v: values that tell nothing are told as %v, in standard deviations of all ends", x, told)
		}
	}
}

// A trial that diverged is the worst, also where its values were good.
func TestADivergedTrialIsTheWorst(t *testing.T) {
	curves := population(20, 5, func(int) int { return 40 })
	curves[7].Final = math.Inf(-1)
	m := Fit(curves, nil)
	for i, c := range curves {
		if i != 7 && m.Unit(c.Final) < m.Unit(curves[7].Final) {
			t.Errorf("trial %d ended at %v, below the diverged one's %v", i, m.Unit(c.Final), m.Unit(curves[7].Final))
		}
	}
	if end := m.Ends()[7]; math.IsNaN(end) || math.IsInf(end, 0) {
		t.Errorf("the diverged trial's end is %v", end)
	}
}

// With a cache from other calls, and with none, the same curves give the same predictions.
func TestACacheChangesNothing(t *testing.T) {
	all := population(60, 7, func(i int) int { return []int{40, 3, 9}[i%3] })
	var cache Cache
	part := saturating([]float64{0.4, 0.5}, 6, rand.New(rand.NewPCG(1, 2)))
	for n := 2; n <= len(all); n++ {
		if got, want := Fit(all[:n], &cache).End(&part), Fit(all[:n], nil).End(&part); got != want {
			t.Fatalf("%d curves: with a cache %v, without %v", n, got, want)
		}
	}
}

// Few curves, curves without values, equal ones and single steps must give finite predictions.
func TestAnyCurvesGiveFinitePredictions(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 1))
	for n := range 12 {
		for kind := range 4 {
			var all []Curve
			for i := range n {
				c := saturating([]float64{rng.Float64(), rng.Float64()}, []int{40, 1 + i, 2, 7}[kind], rng)
				switch {
				case kind == 2 && i%3 == 0:
					c.Steps, c.Scores = nil, nil
				case kind == 3:
					for k := range c.Scores {
						c.Scores[k] = 5
					}
				}
				all = append(all, c)
			}
			m := Fit(all, nil)
			for _, steps := range []int{0, 1, 5, 40} {
				c := saturating([]float64{0.2, 0.8}, steps, rng)
				c.Ended = false
				end := m.End(&c)
				if math.IsNaN(end.Mean) || math.IsInf(end.Mean, 0) || !(end.Deviation > 0) || math.IsInf(end.Deviation, 0) {
					t.Errorf("%d curves of kind %d, %d steps: predicted %v", n, kind, steps, end)
				}
			}
			for i, end := range m.Ends() {
				if math.IsNaN(end) || math.IsInf(end, 0) {
					t.Errorf("%d curves of kind %d: end %d is %v", n, kind, i, end)
				}
			}
		}
	}
}

// The gradient of the loss is that of finite differences.
func TestGradientMatchesFiniteDifferences(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	var x [][]float64
	var y, noise []float64
	for range 12 {
		x = append(x, []float64{rng.Float64(), rng.Float64(), float64(rng.IntN(3))})
		y, noise = append(y, rng.NormFloat64()), append(noise, float64(rng.IntN(2))*rng.Float64())
	}
	f := newFitting(x, y, noise)
	at, grad, none := theta{-0.5, -1, 0.2, 0.3, -1.5}, make([]float64, 5), make([]float64, 5)
	f.loss(at, grad)
	for i := range at {
		const h = 1e-5
		up, down := append(theta(nil), at...), append(theta(nil), at...)
		up[i], down[i] = up[i]+h, down[i]-h
		want := (f.loss(up, none) - f.loss(down, none)) / (2 * h)
		if math.Abs(want-grad[i]) > 1e-5*(1+math.Abs(want)) {
			t.Errorf("hyper-parameter %d: gradient %v, by differences %v", i, grad[i], want)
		}
	}
}

// A process that points were added to predicts their values where they are known, and what is far
// away not at all.
func TestAProcessPassesThroughItsPoints(t *testing.T) {
	p := newProcess(theta{-1, -1, 0, -9}, 3)
	points := [][]float64{{0.1, 0.2}, {0.5, 0.9}, {0.8, 0.3}}
	for i, x := range points {
		p.Add(x, 0, float64(i)-1)
	}
	p.Add([]float64{0.3, 0.4}, 100, 50) // tells nothing
	for i, x := range points {
		if means, sd := p.Predictor().At(x); math.Abs(means[0]-float64(i)+1) > 0.01 || sd > 0.01 {
			t.Errorf("at point %d: %v ± %v, want %d", i, means[0], sd, i-1)
		}
		if got := p.meansAtPoints(0)[i]; math.Abs(got-float64(i)+1) > 0.01 {
			t.Errorf("at point %d: %v, want %d", i, got, i-1)
		}
	}
	if got := p.Incumbents()[0]; math.Abs(got-1) > 0.01 {
		t.Errorf("the incumbent is %v, want 1", got)
	}
}

// Trials that began at a later step (with a fidelity a bracket of Hyperband begins higher) have
// nothing to say about earlier ones.
func TestACurveThatBeganLaterIsNotComparedAtEarlierSteps(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	var all, late []Curve
	for range 12 {
		x := rng.Float64()
		y := 10 * rng.Float64()
		all = append(all, Curve{X: []float64{x}, Steps: []int{1, 3, 9}, Scores: []float64{y, y + 20, y + 40}, Ended: true, Final: y + 40})
		z := 40 + 10*rng.Float64()
		late = append(late, Curve{X: []float64{x}, Steps: []int{9}, Scores: []float64{z}, Ended: true, Final: z})
	}
	m := Steps(append(all, late...))
	for _, y := range []float64{2, 5, 9} {
		n, ok := m.Likelihood(&Curve{X: []float64{0.5}, Steps: []int{1}, Scores: []float64{y}})
		if got := m.Score(n.Mean); !ok || math.Abs(got-y-40) > 1.5 || n.Deviation > 1.5 {
			t.Errorf("a trial with %v at step 1 is expected to end with %v ± %v (%v), want %v", y, got, n.Deviation, ok, y+40)
		}
	}
}

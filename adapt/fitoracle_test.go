package adapt

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func (o fitOracle) timings() (t []Timing) {
	for i := range o.Nodes {
		t = append(t, Timing{Nodes: o.Nodes[i], Replicas: o.Replicas[i], LocalBatch: o.LocalBatch[i], Accumulation: o.Accumulation[i], Step: o.Step[i]})
	}
	return t
}

func TestFitAgreesWithOracle(t *testing.T) {
	var o goodputOracle
	oracle(t, "goodput.json", &o)
	for _, name := range []string{"noiseless_grid", "single_point"} {
		want := o.Fit[name]
		timings := want.timings()
		if loss := paramsOf(want.Params).loss(t, timings); !near(loss, want.Objective, 1e-6) {
			t.Errorf("%s: objective of the reference's parameters: got %.9g, want %.9g", name, loss, want.Objective)
		}
		got, err := FitAllReduce(timings)
		if err != nil {
			t.Fatal(err)
		}
		if loss := got.loss(t, timings); !(loss <= want.Objective*(1+1e-6)) {
			t.Errorf("%s: objective %.9g, want at most %.9g: %+v", name, loss, want.Objective, got)
		}
		rmsle, mape := stepErrors(got, timings)
		wantRMSLE, wantMAPE := stepErrors(paramsOf(want.Params), timings)
		t.Logf("%s: objective %.9g (reference %.9g), RMSLE %.2g (%.2g), MAPE %.2g (%.2g)", name, got.loss(t, timings), want.Objective, rmsle, wantRMSLE, mape, wantMAPE)
		if !(rmsle <= wantRMSLE+1e-4) || !(mape <= wantMAPE+1e-4) {
			t.Errorf("%s: RMSLE %.3g and MAPE %.3g, want at most %.3g and %.3g", name, rmsle, mape, wantRMSLE, wantMAPE)
		}
	}
	single, err := FitAllReduce(o.Fit["single_point"].timings())
	if err != nil {
		t.Fatal(err)
	}
	want := o.Fit["single_point"].Params
	for i, p := range []struct{ got, want float64 }{
		{single.AlphaCompute, want[0]}, {single.BetaCompute, want[1]}, {single.AlphaNodes, want[2]}, {single.BetaNodes, want[3]},
		{single.AlphaReplicas, want[4]}, {single.BetaReplicas, want[5]},
	} {
		if !near(p.got, p.want, 1e-5) {
			t.Errorf("one timing: parameter %d is %g, want %g", i, p.got, p.want)
		}
	}
}

// What was not measured has its prior: a placement that was never tried looks good.
func TestFitWithMissingData(t *testing.T) {
	truth := AllReduce{.05, .001, .08, .004, .02, .001, 1.6}
	at := func(nodes, replicas, batch int) Timing {
		return Timing{Nodes: nodes, Replicas: replicas, LocalBatch: batch, Accumulation: truth.AlphaCompute + truth.BetaCompute*float64(batch),
			Step: truth.StepTime(nodes, replicas, batch, 0)}
	}
	for _, tc := range []struct {
		name    string
		timings []Timing
		check   func(a AllReduce) bool
	}{
		{"one replica", []Timing{at(1, 1, 32), at(1, 1, 64)}, func(a AllReduce) bool {
			return a.AlphaReplicas == tiny && a.BetaReplicas == tiny && near(a.AlphaNodes, 1.1*tiny, 1e-9) && near(a.BetaNodes, 1.1*tiny, 1e-9)
		}},
		{"one node", []Timing{at(1, 1, 32), at(1, 2, 32), at(1, 4, 64)}, func(a AllReduce) bool {
			return a.AlphaReplicas > 1e-4 && near(a.AlphaNodes, 1.1*a.AlphaReplicas, 1e-9) && near(a.BetaNodes, 1.1*a.BetaReplicas, 1e-9)
		}},
		{"at most two replicas", []Timing{at(1, 1, 32), at(1, 2, 32), at(2, 2, 64)}, func(a AllReduce) bool {
			return a.AlphaReplicas > 1e-4 && a.AlphaNodes > 1e-4 && a.BetaReplicas == tiny && a.BetaNodes == tiny
		}},
		{"several nodes alone", []Timing{at(2, 2, 32), at(2, 4, 32), at(4, 8, 64)}, func(a AllReduce) bool {
			return a.AlphaReplicas == tiny && a.BetaReplicas == tiny && a.AlphaNodes > 1e-4 && a.BetaNodes > 1e-6
		}},
		{"one batch", []Timing{at(1, 1, 32), at(1, 2, 32)}, func(a AllReduce) bool {
			return near(a.AlphaCompute, at(1, 1, 32).Accumulation/2, 1e-9) && near(a.AlphaCompute+32*a.BetaCompute, at(1, 1, 32).Accumulation, 1e-2)
		}},
	} {
		a, err := FitAllReduce(tc.timings)
		if err != nil || !tc.check(a) {
			t.Errorf("%s: got %+v, %v", tc.name, a, err)
		}
		for _, r := range tc.timings {
			if got := a.StepTime(r.Nodes, r.Replicas, r.LocalBatch, 0); !near(got, r.Step, 0.02) {
				t.Errorf("%s: %+v: predicted %g", tc.name, r, got)
			}
		}
		if far := a.StepTime(16, 64, 64, 0); !(far > 0) || far > truth.StepTime(16, 64, 64, 0) && len(tc.timings) < 3 {
			t.Errorf("%s: 64 replicas on 16 nodes: predicted %g s", tc.name, far)
		}
	}
}

// A fit depends on the set of timings, not on their order, and those of one configuration count as
// their mean.
func TestFitsAreDeterministic(t *testing.T) {
	timings := randomTimings(rand.New(rand.NewPCG(9, 10)), 40, false)
	cluster := Cluster{Bytes: 1e8, Servers: 2}
	a, err := FitAllReduce(timings)
	if err != nil {
		t.Fatal(err)
	}
	p, err := FitParameterServer(timings, cluster)
	if err != nil {
		t.Fatal(err)
	}
	given := slices.Clone(timings)
	for range 5 {
		rand.New(rand.NewPCG(11, 12)).Shuffle(len(timings), func(i, j int) { timings[i], timings[j] = timings[j], timings[i] })
		shuffled := slices.Clone(timings)
		if b, _ := FitAllReduce(timings); a != b {
			t.Fatalf("in another order: got %+v, want %+v", b, a)
		}
		if q, _ := FitParameterServer(timings, cluster); p != q {
			t.Fatalf("in another order: got %+v, want %+v", q, p)
		}
		if !slices.Equal(timings, shuffled) {
			t.Fatal("a fit changed its argument")
		}
	}
	split := slices.Clone(given)
	split[3].Step *= 0.9
	more := given[3]
	more.Step *= 1.1
	split = append(split, more)
	b, err := FitAllReduce(split)
	if err != nil || !near(b.StepTime(1, 2, 64, 0), a.StepTime(1, 2, 64, 0), 1e-6) {
		t.Errorf("two timings of one configuration: got %+v, %v, want %+v", b, err, a)
	}
}

// randomTimings are those of a random job with noise of some percent.
func randomTimings(rng *rand.Rand, n int, servers bool) (timings []Timing) {
	truth := AllReduce{.01 + .1*rng.Float64(), .001 * rng.Float64(), .1 * rng.Float64(), .01 * rng.Float64(), .05 * rng.Float64(), .005 * rng.Float64(), 1 + 3*rng.Float64()}
	for range n {
		x := Timing{Replicas: 1 + rng.IntN(8), LocalBatch: 16 << rng.IntN(4)}
		x.Nodes = 1 + rng.IntN(x.Replicas)
		if servers {
			x.Servers = 1 + rng.IntN(4)
		}
		noise := func() float64 { return math.Exp(0.03 * rng.NormFloat64()) }
		x.Accumulation = truth.costs(1, 1).time(float64(x.LocalBatch), 0) * noise()
		x.Step = truth.StepTime(x.Nodes, x.Replicas, x.LocalBatch, 0) * noise()
		if rng.IntN(5) == 0 {
			x.Accumulation = 0
		}
		timings = append(timings, x)
	}
	return timings
}

func TestBadTimingsAreRefused(t *testing.T) {
	good := Timing{Nodes: 1, Replicas: 1, LocalBatch: 8, Accumulation: 1, Step: 1}
	for _, tc := range []struct {
		change func(t *Timing)
		say    string
	}{
		{func(t *Timing) { t.Nodes = 0 }, "timing 1: Nodes is 0"},
		{func(t *Timing) { t.Replicas = 0 }, "timing 1: Replicas is 0"},
		{func(t *Timing) { t.Nodes = 2 }, "timing 1: Replicas is 1, want at least one on each of 2 nodes"},
		{func(t *Timing) { t.LocalBatch = 0 }, "timing 1: LocalBatch is 0"},
		{func(t *Timing) { t.Step = 0 }, "timing 1: Step is 0 s"},
		{func(t *Timing) { t.Step = math.NaN() }, "timing 1: Step is NaN s"},
		{func(t *Timing) { t.Step = math.Inf(1) }, "timing 1: Step is +Inf s"},
		{func(t *Timing) { t.Accumulation = -1 }, "timing 1: Accumulation is -1 s"},
		{func(t *Timing) { t.Accumulation = math.NaN() }, "timing 1: Accumulation is NaN s"},
		{func(t *Timing) { t.Servers = -1 }, "timing 1: Servers is -1"},
	} {
		bad := good
		tc.change(&bad)
		if _, err := FitAllReduce([]Timing{good, bad}); err == nil || !strings.Contains(err.Error(), tc.say) {
			t.Errorf("all-reduce: got error %v, want %q", err, tc.say)
		}
		if _, err := FitParameterServer([]Timing{good, bad}, Cluster{Bytes: 1, Servers: 1}); err == nil || !strings.Contains(err.Error(), tc.say) {
			t.Errorf("parameter server: got error %v, want %q", err, tc.say)
		}
	}
	if _, err := FitAllReduce(nil); err == nil || !strings.Contains(err.Error(), "no timings") {
		t.Errorf("no timings: got error %v", err)
	}
	for _, tc := range []struct {
		c   Cluster
		say string
	}{
		{Cluster{Servers: 1}, "Cluster.Bytes is 0"},
		{Cluster{Bytes: 1}, "Cluster.Servers is 0"},
		{Cluster{Bytes: 1, Servers: 1, WorkerBandwidth: -1}, "Cluster.WorkerBandwidth is -1"},
		{Cluster{Bytes: 1, Servers: 1, ServerBandwidth: math.NaN()}, "Cluster.ServerBandwidth is NaN"},
		{Cluster{Bytes: 1, Servers: 1, NodeBandwidth: math.Inf(1)}, "Cluster.NodeBandwidth is +Inf"},
	} {
		if _, err := FitParameterServer([]Timing{good}, tc.c); err == nil || !strings.Contains(err.Error(), tc.say) {
			t.Errorf("%+v: got error %v, want %q", tc.c, err, tc.say)
		}
	}
	if _, err := FitParameterServer(nil, Cluster{Bytes: 1, Servers: 1}); err == nil {
		t.Error("no timings were fitted")
	}
}

// The derivatives that are written by hand are those of the objective.
func TestGradientsOfObjectives(t *testing.T) {
	rng := rand.New(rand.NewPCG(13, 14))
	for trial := range 40 {
		rows, err := distinct(randomTimings(rng, 30, true))
		if err != nil {
			t.Fatal(err)
		}
		f, name := &blendFit{}, ""
		if trial%2 == 0 {
			f, _ = newAllReduceFit(rows)
			name = "all-reduce"
		} else {
			f = newServerFit(rows, Cluster{Bytes: 1e8, Servers: 1, SharedMemory: trial%4 == 1})
			name = "parameter server"
		}
		var x, g, ignored vector
		var h, ignoredH matrix
		for i := range f.gamma() {
			x[i] = math.Pow(10, -3+2*rng.Float64())
		}
		x[f.gamma()] = 1 + 4*rng.Float64()
		f.value(&x, &g, &h)
		for i := range f.box.n {
			const rel = 1e-5
			up, down := x, x
			up[i] *= 1 + rel
			down[i] *= 1 - rel
			numeric := (f.value(&up, &ignored, &ignoredH) - f.value(&down, &ignored, &ignoredH)) / (2 * rel * x[i])
			if math.Abs(g[i]-numeric) > 1e-5*math.Max(math.Abs(numeric), 1e-3/x[i]) {
				t.Errorf("%s, trial %d: derivative by parameter %d is %g, by differences %g", name, trial, i, g[i], numeric)
			}
			if !(h[i][i] >= 0) {
				t.Errorf("%s, trial %d: curvature of parameter %d is %g", name, trial, i, h[i][i])
			}
		}
	}
}

func TestSlopeOfSteps(t *testing.T) {
	rng := rand.New(rand.NewPCG(15, 16))
	for range 200 {
		c := stepCosts{rng.Float64(), rng.Float64(), 10 * rng.Float64(), 1 + 9*rng.Float64()*float64(rng.IntN(2))}
		m, s := 1+50*rng.Float64(), float64(rng.IntN(4))
		time, slope, curve := c.shape(m, s)
		numeric := (c.time(m+1e-4, s) - c.time(m-1e-4, s)) / 2e-4
		_, above, _ := c.shape(m+1e-4, s)
		_, below, _ := c.shape(m-1e-4, s)
		second := (above - below) / 2e-4
		if time != c.time(m, s) || math.Abs(slope-numeric) > 1e-5*slope+1e-9 || math.Abs(curve-second) > 1e-5*curve+1e-9 {
			t.Errorf("%+v at %g, %g: got %g, %g, %g, want %g, %g, %g", c, m, s, time, slope, curve, c.time(m, s), numeric, second)
		}
		var x, up, down [links]float64
		for i := range x {
			x[i] = rng.Float64()
		}
		_, by := slowestSlope(x)
		for i := range x {
			up, down = x, x
			up[i] += 1e-6
			down[i] -= 1e-6
			if numeric := (slowest(up) - slowest(down)) / 2e-6; math.Abs(by[i]-numeric) > 1e-6 {
				t.Errorf("slowest of %v: derivative %d is %g, want %g", x, i, by[i], numeric)
			}
		}
	}
}

// A minimum on the box's bounds, where the curvature couples the parameters.
func TestMinimizeWithinBounds(t *testing.T) {
	for _, tc := range []struct {
		low, high, want vector
	}{
		{vector{-9, -9}, vector{9, 9}, vector{1, 2}},
		{vector{2, -9}, vector{9, 9}, vector{2, 1.5}},    // (x−1)² + (y−2)² + (x−1)(y−2) at x = 2
		{vector{-9, -9}, vector{9, 0}, vector{2, 0}},     // at y = 0
		{vector{3, 3}, vector{9, 9}, vector{3, 3}},       // at both
		{vector{-9, 4}, vector{9, 4}, vector{0, 4}},      // y fixed
		{vector{5, -1}, vector{5, -1}, vector{5, -1}},    // both fixed
		{vector{-9, -9}, vector{0, 1.5}, vector{0, 1.5}}, // at both upper ones
	} {
		b := &box{n: 2, low: tc.low, high: tc.high}
		x, value := minimize(paraboloid{}, b, vector{8, -8}, effort{200, 1e-10})
		if math.Abs(x[0]-tc.want[0]) > 1e-4 || math.Abs(x[1]-tc.want[1]) > 1e-4 {
			t.Errorf("in [%g, %g]×[%g, %g]: got %v with %g, want %v", tc.low[0], tc.high[0], tc.low[1], tc.high[1], x[:2], value, tc.want[:2])
		}
	}
}

type paraboloid struct{}

func (paraboloid) evaluate(x, g *vector, h *matrix) float64 {
	a, b := x[0]-1, x[1]-2
	g[0], g[1] = 2*a+b, 2*b+a
	h[0][0], h[1][0], h[1][1] = 2, 1, 2
	return a*a + b*b + a*b
}

// A profile of ten placements is fitted in well below 5 ms.
func BenchmarkFitParameterServer(b *testing.B) {
	for _, rows := range []int{10, 50, 500} {
		timings := randomTimings(rand.New(rand.NewPCG(17, 18)), rows, true)
		b.Run(fmt.Sprintf("timings=%d", rows), func(b *testing.B) {
			for b.Loop() {
				if _, err := FitParameterServer(timings, Cluster{Bytes: 1e8, Servers: 1}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

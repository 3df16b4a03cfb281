package adapt

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// rootMeanSquare is √(mean r²).
func rootMeanSquare(residuals []float64) float64 {
	sum := 0.0
	for _, r := range residuals {
		sum += r * r
	}
	return math.Sqrt(sum / float64(len(residuals)))
}

// What fits minimise is what their comments say, computed row by row from the models.
func TestObjectivesAreTheirFormulas(t *testing.T) {
	rng := rand.New(rand.NewPCG(17, 18))
	square := func(x float64) float64 { return x * x }
	for trial := range 40 {
		rows, err := distinct(randomTimings(rng, 30, true))
		if err != nil {
			t.Fatal(err)
		}
		x := func(n int) (x vector) {
			for i := range n - 1 {
				x[i] = math.Pow(10, -3+2*rng.Float64())
			}
			x[n-1] = 1 + 4*rng.Float64()
			return x
		}
		residuals := func(costs func(r Timing) stepCosts) float64 {
			var computing, closing []float64
			for _, r := range rows {
				c := costs(r)
				compute := c.alpha + c.beta*float64(r.LocalBatch)
				if r.Accumulation > 0 {
					computing = append(computing, math.Log(compute/r.Accumulation))
				}
				closing = append(closing, math.Log(math.Pow(math.Pow(compute, c.gamma)+math.Pow(c.exchange, c.gamma), 1/c.gamma)/r.Step))
			}
			return rootMeanSquare(computing) + rootMeanSquare(closing) + .001*square(costs(rows[0]).gamma-1)
		}
		var g vector
		var h matrix

		a, _ := newAllReduceFit(rows)
		v := x(arParameters)
		model := AllReduce{v[arAlphaCompute], v[arBetaCompute], v[arAlphaNodes], v[arBetaNodes], v[arAlphaReplicas], v[arBetaReplicas], v[arGamma]}
		want := residuals(func(r Timing) stepCosts { return model.costs(r.Nodes, r.Replicas) }) +
			.01*(square(model.BetaNodes/model.AlphaNodes)+square(model.BetaReplicas/model.AlphaReplicas))
		if got := a.value(&v, &g, &h); !near(got, want, 1e-9) {
			t.Errorf("trial %d: all-reduce: got %g, want %g", trial, got, want)
		}

		cluster := Cluster{Bytes: 1e8, Servers: 1, SharedMemory: trial%2 == 1}
		s := newServerFit(rows, cluster)
		v = x(psParameters)
		b := 2e8
		share := func(time float64) float64 { return square(time / (time + v[psLatency] + v[psWorker])) }
		want = residuals(func(r Timing) stepCosts {
			p := ParameterServer{v[psAlphaCompute], v[psBetaCompute], v[psContention], v[psLatency], v[psWorker] / b, v[psServer] / b, v[psNode] / b, v[psMemory] / b, v[psUpdate] / b, v[psGamma], cluster}
			p.Cluster.Servers = r.Servers
			return p.costs(r.Nodes, r.Replicas)
		}) + .01*(square(v[psContention])+share(v[psServer])+share(v[psUpdate])+2*share(v[psNode])+2*share(v[psMemory]))
		if got := s.value(&v, &g, &h); !near(got, want, 1e-9) {
			t.Errorf("trial %d: parameter server: got %g, want %g", trial, got, want)
		}
	}
}

// A fit leaves at its least what the timings cannot tell, and holds the others to their bounds.
func TestWhatTimingsCannotTellIsFixed(t *testing.T) {
	at := func(nodes, replicas, servers, batch int) Timing {
		return Timing{Nodes: nodes, Replicas: replicas, Servers: servers, LocalBatch: batch, Accumulation: .3, Step: .5}
	}
	silent := func(x Timing) Timing { x.Accumulation = 0; return x }
	names := []string{"alpha", "beta", "contention", "latency", "worker", "server", "node", "memory", "update", "gamma"}
	for _, tc := range []struct {
		name   string
		rows   []Timing
		shared bool
		free   []string
	}{
		{"one timing", []Timing{at(1, 1, 1, 8)}, false, []string{"beta", "latency", "worker", "gamma"}},
		{"two batches", []Timing{at(1, 1, 1, 8), at(1, 1, 1, 9)}, false, []string{"alpha", "beta", "latency", "worker", "gamma"}},
		{"two numbers of workers on a node", []Timing{at(1, 1, 1, 8), at(1, 2, 1, 8)}, false, []string{"beta", "contention", "latency", "worker", "server", "node", "gamma"}},
		{"of one their computing is not known", []Timing{at(1, 1, 1, 8), silent(at(1, 2, 1, 8))}, false, []string{"beta", "latency", "worker", "server", "node", "gamma"}},
		{"in shared memory", []Timing{at(1, 1, 1, 8), at(1, 2, 1, 8)}, true, []string{"beta", "contention", "latency", "worker", "server", "memory", "gamma"}},
		{"two nodes", []Timing{at(1, 1, 1, 8), at(2, 2, 2, 8)}, false, []string{"beta", "latency", "worker", "update", "gamma"}},
		{"two nodes in shared memory", []Timing{at(1, 1, 1, 8), at(2, 2, 2, 8)}, true, []string{"beta", "latency", "worker", "node", "memory", "update", "gamma"}},
		{"two numbers of servers", []Timing{at(1, 2, 1, 8), at(1, 2, 2, 8)}, false, []string{"beta", "latency", "worker", "server", "update", "gamma"}},
	} {
		f := newServerFit(tc.rows, Cluster{Bytes: 1e6, Servers: 1, SharedMemory: tc.shared})
		for i, name := range names {
			low, high := f.box.low[i], f.box.high[i]
			want := [2]float64{1e-8, math.Inf(1)}
			switch name {
			case "contention":
				want = [2]float64{0, 4}
			case "gamma":
				want = [2]float64{1, 10}
			}
			if !slices.Contains(tc.free, name) {
				if want[1] = want[0]; name == "alpha" { // half of the mean
					want = [2]float64{.15, .15}
				}
			}
			if low != want[0] || high != want[1] {
				t.Errorf("%s: %s is in [%g, %g], want [%g, %g]", tc.name, name, low, high, want[0], want[1])
			}
		}
	}
	known := newServerFit([]Timing{at(1, 1, 1, 8), at(1, 2, 1, 8)}, Cluster{Bytes: 1e6, Servers: 1, WorkerBandwidth: 1e9, ServerBandwidth: 5e8, NodeBandwidth: 2e9})
	for i, want := range map[int]float64{psWorker: 2e-3, psServer: 4e-3, psNode: 1e-3, psMemory: 1e-8} {
		if got := known.box.low[i]; !near(got, want, 1e-12) {
			t.Errorf("known bandwidths: %s is at least %g, want %g", names[i], got, want)
		}
	}

	ring := []string{"alpha", "beta", "alpha between nodes", "beta between nodes", "alpha inside a node", "beta inside a node", "gamma"}
	for _, tc := range []struct {
		name    string
		rows    []Timing
		free    []int
		between bool
	}{
		{"one replica", []Timing{at(1, 1, 0, 8)}, []int{1, 6}, false},
		{"two batches", []Timing{at(1, 1, 0, 8), at(1, 1, 0, 9)}, []int{0, 1, 6}, false},
		{"two on a node", []Timing{at(1, 2, 0, 8)}, []int{1, 4, 6}, false},
		{"three on a node", []Timing{at(1, 3, 0, 8)}, []int{1, 4, 5, 6}, false},
		{"two on two nodes", []Timing{at(2, 2, 0, 8)}, []int{1, 2, 6}, true},
		{"three on two nodes", []Timing{at(2, 3, 0, 8)}, []int{1, 2, 3, 6}, true},
		{"both", []Timing{at(1, 2, 0, 8), at(2, 3, 0, 9)}, []int{0, 1, 2, 3, 4, 5, 6}, true},
	} {
		f, between := newAllReduceFit(tc.rows)
		if between != tc.between {
			t.Errorf("%s: between nodes is %t", tc.name, between)
		}
		for i, name := range ring {
			want := [2]float64{1e-8, math.Inf(1)}
			if name == "gamma" {
				want = [2]float64{1, 10}
			}
			if !slices.Contains(tc.free, i) {
				if want[1] = want[0]; i == 0 {
					want = [2]float64{.15, .15}
				}
			}
			if f.box.low[i] != want[0] || f.box.high[i] != want[1] {
				t.Errorf("%s: %s is in [%g, %g], want [%g, %g]", tc.name, name, f.box.low[i], f.box.high[i], want[0], want[1])
			}
		}
	}
	if got := meanCompute([]Timing{{Step: 3}, {Step: 2}, {Step: 4}}); got != 2 {
		t.Errorf("where no computing was timed: got %g, want the fastest step's 2", got)
	}
	if got := meanCompute([]Timing{{Step: 3, Accumulation: 1}, {Step: 2}, {Step: 4, Accumulation: 2}}); got != 1.5 {
		t.Errorf("of two of three: got %g, want 1.5", got)
	}
}

// The bound of a search is the rate's: its derivatives are those of its time, and at is where it is
// greatest.
func TestABoundIsGreatestWhereItSays(t *testing.T) {
	rng := rand.New(rand.NewPCG(19, 20))
	for trial := range 300 {
		g, nodes, replicas, l := randomJob(rng, 600)
		r := l.ranges(g.InitialBatch, replicas)
		if r.least > r.most {
			continue
		}
		c := g.Model.(AllReduce).costs(nodes, replicas)
		s := r.first()
		b := g.bound(replicas, c, r, s)
		if b.low > b.high {
			continue
		}
		for range 5 {
			x := float64(b.low) + rng.Float64()*float64(b.high-b.low)
			if math.Abs(x-b.largest*b.parts) < 1e-2 {
				continue // a kink
			}
			const d = 1e-4
			_, slope, curve := b.shape(x)
			up, slopeUp, _ := b.shape(x + d)
			down, slopeDown, _ := b.shape(x - d)
			if math.Abs(slope-(up-down)/(2*d)) > 1e-4*slope+1e-9 || math.Abs(curve-(slopeUp-slopeDown)/(2*d)) > 1e-3*curve+1e-7 {
				t.Errorf("trial %d: at %g the derivatives are %g and %g, by differences %g and %g", trial, x, slope, curve, (up-down)/(2*d), (slopeUp-slopeDown)/(2*d))
			}
		}
		b.climb(b.start(), 0)
		best := 0.0
		for at := b.low; at <= b.high; at++ {
			seconds, _, _ := b.shape(float64(at))
			best = max(best, g.rate(replicas, at, 0, seconds))
		}
		if got := b.most(); !near(got, best, 1e-9) {
			t.Errorf("trial %d: the bound is at most %g, at %d; of all numbers the best has %g", trial, got, b.at, best)
		}
	}
	for _, tc := range []struct {
		x    float64
		want int
	}{{math.NaN(), 3}, {-5, 3}, {3, 3}, {3.9, 3}, {4, 4}, {6.5, 6}, {7, 7}, {99, 7}, {math.Inf(1), 7}} {
		if got := nearest(tc.x, 3, 7); got != tc.want {
			t.Errorf("nearest to %g of 3 to 7: got %d, want %d", tc.x, got, tc.want)
		}
	}
}

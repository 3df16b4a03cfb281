package adapt

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// serverTruth is a job whose servers are slow enough to matter: B is 200 MB, a worker's link 1
// GB/s, a server's 2 GB/s, a node's 4 GB/s.
var serverTruth = ParameterServer{
	AlphaCompute: 0.05, BetaCompute: 0.002, Contention: 0.1, Latency: 0.01,
	Worker: 1e-9, Server: 0.5e-9, Node: 0.25e-9, Memory: 0.05e-9, Update: 0.2e-9, Gamma: 2,
	Cluster: Cluster{Bytes: 1e8, Servers: 1},
}

// observe is the timing of a configuration; noise is the standard deviation of its logarithms.
func (p ParameterServer) observe(nodes, replicas, servers, batch int, noise float64, rng *rand.Rand) Timing {
	p.Cluster.Servers = servers
	off := func() float64 { return math.Exp(noise * rng.NormFloat64()) }
	return Timing{Nodes: nodes, Replicas: replicas, LocalBatch: batch, Servers: servers,
		Accumulation: (p.StepTime(nodes, replicas, batch, 1) - p.StepTime(nodes, replicas, batch, 0)) * off(), Step: p.StepTime(nodes, replicas, batch, 0) * off()}
}

// errorsOf are the mean and the largest relative error of predicted closing steps.
func (p ParameterServer) errorsOf(timings []Timing) (mean, largest float64) {
	for _, x := range timings {
		m := Model(p)
		if x.Servers > 0 {
			m = p.WithServers(x.Servers)
		}
		e := math.Abs(m.StepTime(x.Nodes, x.Replicas, x.LocalBatch, 0)/x.Step - 1)
		mean += e / float64(len(timings))
		largest = max(largest, e)
	}
	return mean, largest
}

func TestStepOfParameterServer(t *testing.T) {
	p := serverTruth
	p.Gamma = 1
	for _, tc := range []struct {
		name                                     string
		nodes, replicas, servers, batch, batches int
		shared                                   bool
		want                                     float64
	}{
		// The slowest of a norm with exponent 10 is as good as the maximum where one is
		// twice the next.
		{"one worker", 1, 1, 1, 50, 0, false, 0.15 + 0.01 + 0.2 + 0.04},
		{"accumulation", 1, 1, 1, 50, 3, false, 4*0.15 + 0.01 + 0.2 + 0.04},
		{"server's link", 8, 8, 1, 50, 0, false, 0.15 + 0.01 + 0.8 + 0.04},
		{"four servers", 8, 8, 4, 50, 0, false, 0.15 + 0.01 + slowest([links]float64{.2, .2, .05, 0}) + 0.01},
		{"node's link, contention", 1, 8, 16, 50, 0, false, 0.15*1.7 + 0.01 + 0.4 + 0.0025},
		{"shared memory", 1, 8, 16, 50, 0, true, 0.15*1.7 + 0.01 + 0.2 + 0.0025},
		{"shared memory, two nodes", 2, 16, 64, 50, 0, true, 0.15*1.7 + 0.01 + slowest([links]float64{.2, .025, .2, .04}) + 0.000625},
		{"uneven nodes", 2, 3, 64, 50, 0, false, 0.15*1.1 + 0.01 + slowest([links]float64{.2, .1 * 3 / 64, .1, 0}) + 0.000625},
	} {
		p.Cluster.Servers, p.Cluster.SharedMemory = tc.servers, tc.shared
		if got := p.StepTime(tc.nodes, tc.replicas, tc.batch, tc.batches); !near(got, tc.want, 1e-3) {
			t.Errorf("%s: got %g s, want %g s", tc.name, got, tc.want)
		}
	}
}

// Of eight workers on each of two nodes half of the traffic stays in a node's memory, which is the
// slowest here.
func TestMemoryOfNodes(t *testing.T) {
	p := ParameterServer{Memory: 1e-9, Gamma: 1, Cluster: Cluster{Bytes: 5e8, Servers: 2, SharedMemory: true}}
	for nodes, want := range map[int]float64{1: 16, 2: 4, 4: 1} { // 16/nodes workers on a node, and 1/nodes of their traffic
		if got := p.StepTime(nodes, 16, 1, 0); !near(got, want, 1e-6) {
			t.Errorf("%d nodes: got %g s, want %g s", nodes, got, want)
		}
	}
	p.Cluster.SharedMemory = false
	if got := p.StepTime(1, 16, 1, 0); got > 1e-6 {
		t.Errorf("without shared memory: got %g s, want none in memory", got)
	}
}

// Fitted to noisy timings of some placements, the model predicts others.
func TestFitPredictsOtherPlacements(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 22))
	for _, shared := range []bool{false, true} {
		truth := serverTruth
		truth.Cluster.SharedMemory = shared
		var seen, unseen []Timing
		for _, batch := range []int{16, 64, 128} {
			for _, p := range [][3]int{{1, 1, 1}, {1, 2, 1}, {1, 4, 1}, {2, 4, 1}, {2, 4, 2}, {2, 8, 2}, {4, 4, 2}, {4, 8, 4}} {
				seen = append(seen, truth.observe(p[0], p[1], p[2], batch, 0.03, rng))
			}
		}
		for _, p := range [][3]int{{4, 16, 2}, {4, 16, 4}, {4, 16, 8}, {8, 8, 1}, {8, 32, 8}, {1, 8, 2}} {
			unseen = append(unseen, truth.observe(p[0], p[1], p[2], 64, 0, rng))
		}
		p, err := FitParameterServer(seen, truth.Cluster)
		if err != nil {
			t.Fatal(err)
		}
		mean, _ := p.errorsOf(seen)
		far, largest := p.errorsOf(unseen)
		t.Logf("shared memory %t: seen %.3f, unseen %.3f, at most %.3f: %+v", shared, mean, far, largest, p)
		if mean > 0.03 || far > 0.08 || largest > 0.15 {
			t.Errorf("shared memory %t: mean errors %.3f of seen and %.3f of unseen placements, largest %.3f; want 0.03, 0.08, 0.15: %+v", shared, mean, far, largest, p)
		}
	}
}

// Where nothing is known of larger jobs they look as good as can be, but no better than the
// bandwidths allow; a timing of one corrects it.
func TestUnseenScaleLooksGood(t *testing.T) {
	rng := rand.New(rand.NewPCG(23, 24))
	one := []Timing{serverTruth.observe(1, 1, 1, 32, 0, rng), serverTruth.observe(1, 1, 1, 64, 0, rng)}
	p, err := FitParameterServer(one, serverTruth.Cluster)
	if err != nil {
		t.Fatal(err)
	}
	if mean, _ := p.errorsOf(one); mean > 0.01 {
		t.Errorf("mean error %.3f of two timings, want 0.01: %+v", mean, p)
	}
	alone, eight, truth := p.StepTime(1, 1, 32, 0), p.StepTime(8, 8, 32, 0), serverTruth.StepTime(8, 8, 32, 0)
	if !near(eight, alone, 0.01) || eight > truth {
		t.Errorf("eight workers: predicted %g s, want the %g s of one, and the truth is %g s", eight, alone, truth)
	}
	known := serverTruth.Cluster
	known.ServerBandwidth = 2e9
	bounded, err := FitParameterServer(one, known)
	if err != nil {
		t.Fatal(err)
	}
	if got := bounded.StepTime(8, 8, 32, 0); got < 0.8 || got > 1.1*truth {
		t.Errorf("with the server's bandwidth: predicted %g s, want at least the 0.8 s that it takes, and the truth is %g s", got, truth)
	}
	more := append(one, serverTruth.observe(8, 8, 1, 32, 0, rng))
	learned, err := FitParameterServer(more, serverTruth.Cluster)
	if err != nil {
		t.Fatal(err)
	}
	if got := learned.StepTime(8, 8, 64, 0); !near(got, serverTruth.StepTime(8, 8, 64, 0), 0.05) {
		t.Errorf("after a timing of eight workers: predicted %g s, want %g s: %+v", got, serverTruth.StepTime(8, 8, 64, 0), learned)
	}
	if got, want := learned.WithServers(4).StepTime(8, 8, 64, 0), learned.StepTime(8, 8, 64, 0); !(got < 0.9*want) {
		t.Errorf("four servers: predicted %g s, want much less than the %g s of one: %+v", got, want, learned)
	}
}

// A single timing, or none of computing alone, gives a model that is finite and agrees with it.
func TestFitOfLittleData(t *testing.T) {
	for i, timings := range [][]Timing{
		{{Nodes: 1, Replicas: 1, LocalBatch: 8, Step: 0.2}},
		{{Nodes: 1, Replicas: 1, LocalBatch: 8, Accumulation: 0.1, Step: 0.2}},
		{{Nodes: 2, Replicas: 5, LocalBatch: 8, Accumulation: 0.3, Step: 0.2}}, // noise: less than its computing
		{{Nodes: 1, Replicas: 1, LocalBatch: 8, Step: 0.2}, {Nodes: 1, Replicas: 1, LocalBatch: 16, Step: 0.3}},
	} {
		for _, shared := range []bool{false, true} {
			p, err := FitParameterServer(timings, Cluster{Bytes: 1 << 20, Servers: 2, SharedMemory: shared})
			if err != nil {
				t.Fatal(err)
			}
			a, err := FitAllReduce(timings)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range []Model{p, a} {
				for _, x := range timings {
					got := m.StepTime(x.Nodes, x.Replicas, x.LocalBatch, 0)
					impossible := i == 2 || i == 1 && m == Model(a) // by the model: all-reduce of one replica takes no time
					if off := math.Abs(math.Log(got / x.Step)); off > 0.1 && !(impossible && off < 0.7) {
						t.Errorf("%+v: predicted %g s by %+v", x, got, m)
					}
				}
				for _, at := range [][4]int{{1, 1, 1, 0}, {16, 64, 1000, 5}, {1, 100, 1, 0}} {
					if got := m.StepTime(at[0], at[1], at[2], at[3]); !(got > 0) || !finite(got) {
						t.Errorf("%v: predicted %g s by %+v", at, got, m)
					}
				}
			}
		}
	}
}

// More servers are never slower, and Best takes as few as are all but as good as all.
func TestBestServers(t *testing.T) {
	rng := rand.New(rand.NewPCG(25, 26))
	chosen := map[int]bool{}
	for range 200 {
		p := serverTruth
		p.Server *= math.Pow(10, -2+3*rng.Float64())
		p.Update *= math.Pow(10, -2+2*rng.Float64())
		g := Goodput{Model: p, Noise: Noise{Sqr: 0.01, Var: rng.Float64()}, InitialBatch: 64}
		replicas := 1 + rng.IntN(32)
		nodes := 1 + rng.IntN(replicas)
		l := Limits{MaxBatch: 2048, MaxLocal: 256, Accumulation: true, MaxServers: 1 + rng.IntN(20)}
		got, err := g.Best(nodes, replicas, l)
		if err != nil {
			t.Fatal(err)
		}
		one := l
		one.MaxServers = 0
		var byServers []Choice
		for s := range l.MaxServers {
			g.Model = p.WithServers(s + 1)
			c, err := g.Best(nodes, replicas, one)
			if err != nil {
				t.Fatal(err)
			}
			if c.Servers != 0 {
				t.Fatalf("without MaxServers: got %+v, want no number of servers", c)
			}
			if s > 0 && c.Goodput < byServers[s-1].Goodput*(1-1e-12) {
				t.Fatalf("%+v: %d servers have %g, one less %g", p, s+1, c.Goodput, byServers[s-1].Goodput)
			}
			c.Servers = s + 1
			byServers = append(byServers, c)
		}
		want := 0
		for byServers[want].Goodput < 0.99*byServers[len(byServers)-1].Goodput {
			want++
		}
		if got != byServers[want] {
			t.Fatalf("%+v on %d nodes, %d replicas, at most %d servers: got %+v, want %+v", p, nodes, replicas, l.MaxServers, got, byServers[want])
		}
		chosen[got.Servers] = true
	}
	if len(chosen) < 4 {
		t.Errorf("only %v servers were chosen: the test shows little", chosen)
	}
}

func TestWithServersRefuses(t *testing.T) {
	defer func() {
		if got := fmt.Sprint(recover()); got != "adapt: ParameterServer.WithServers: 0 servers, want at least 1" {
			t.Errorf("got panic %s", got)
		}
	}()
	serverTruth.WithServers(0)
}

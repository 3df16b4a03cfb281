package cpu

import (
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/compute/op"
	"github.com/paragon-train/paragon/internal/compute/plan"
	"github.com/paragon-train/paragon/internal/compute/pool"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

func TestSplitCoversEverythingOnce(t *testing.T) {
	p := pool.New(3)
	defer p.Close()
	on := threads{p}
	for _, n := range []int{1, 2, 99, 100, 101, 1000} {
		for _, grain := range []int{1, 7, 100, 5000} {
			var mu sync.Mutex
			seen := make([]int, n)
			on.split(n, grain, func(lo, hi int) {
				mu.Lock()
				defer mu.Unlock()
				if hi-lo > grain {
					t.Errorf("n %d grain %d: a piece from %d to %d", n, grain, lo, hi)
				}
				for i := lo; i < hi; i++ {
					seen[i]++
				}
			})()
			for i, k := range seen {
				if k != 1 {
					t.Fatalf("n %d grain %d: %d was done %d times", n, grain, i, k)
				}
			}
		}
	}
}

func TestTransposeTurnsRowsIntoColumns(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		rows, cols := 1+rng.IntN(50), 1+rng.IntN(50)
		x, y := make([]float32, rows*cols), make([]float32, rows*cols)
		for i := range x {
			x[i] = float32(i)
		}
		turn(f32.Array{F32: y}, f32.Array{F32: x}, rows, cols)
		for i := range x {
			if got := y[i%cols*rows+i/cols]; got != x[i] {
				t.Fatalf("%d×%d: element %d became %g", rows, cols, i, got)
			}
		}
	}
}

func TestMomentsOfManyRows(t *testing.T) {
	p := pool.New(2)
	defer p.Close()
	noise := func(r *rand.Rand, _, _ int) float64 { return r.NormFloat64() }
	cases := []struct {
		name    string
		stored  bool                                      // bfloat16 can tell these numbers apart
		x       func(r *rand.Rand, row, rows int) float64 // noise of deviation 1, or nearly
		offsets []float64                                 // added to channels in turn
	}{
		{"normal", true, noise, []float64{0, 50, 100}},
		{"mean ten thousand times the deviation", false, noise, []float64{0, 1e4, -1e4, 3e3}},
		{"the first rows are outliers", false, func(r *rand.Rand, row, rows int) float64 {
			if row < 10 {
				return -1e4
			}
			return r.NormFloat64()
		}, []float64{1e4}},
		{"the rows of the sample are outliers", false, func(r *rand.Rand, row, rows int) float64 {
			if i := (row*sampleRows + rows - 1) / rows; i*rows/sampleRows == row {
				return -1e4
			}
			return r.NormFloat64()
		}, []float64{1e4}},
		{"mostly zero", true, func(r *rand.Rand, _, _ int) float64 { return max(r.NormFloat64()-2, 0) }, []float64{0}},
		{"constant", true, func(*rand.Rand, int, int) float64 { return 0 }, []float64{0, 3, 1e4}},
	}
	for _, test := range cases {
		for _, c := range []int{1, 3, 64, 300} {
			rng := rand.New(rand.NewPCG(3, 4))
			rows := 3*rowGrain(c) + 5
			doubles := make([]float64, sumDoubles(rows, c))
			x := make([]float32, rows*c)
			for i := range x {
				x[i] = float32(test.x(rng, i/c, rows) + test.offsets[i%c%len(test.offsets)])
			}
			for _, stored := range []f32.Array{{F32: x}, {BF16: make([]uint16, len(x))}} {
				if stored.BF16 != nil && !test.stored {
					continue
				}
				f32.Move(stored, f32.Array{F32: x})
				f32.Move(f32.Array{F32: x}, stored)
				m := newMoments(threads{p}, doubles, stored, c)
				m.compute(rows)
				for k := range c {
					var mean, variance float64
					for i := k; i < len(x); i += c {
						mean += float64(x[i])
					}
					mean /= float64(rows)
					for i := k; i < len(x); i += c {
						variance += (float64(x[i]) - mean) * (float64(x[i]) - mean) / float64(rows)
					}
					if !(math.Abs(m.mean[k]-mean) <= 5e-6*math.Sqrt(variance)) || !(math.Abs(m.variance[k]-variance) <= 5e-6*variance) {
						t.Fatalf("%s: %d channels, bfloat16 %v, channel %d: mean %g and variance %g, want %g and %g: off by %.1e of the deviation and %.1e of the variance",
							test.name, c, stored.BF16 != nil, k, m.mean[k], m.variance[k], mean, variance, math.Abs(m.mean[k]-mean)/math.Sqrt(variance), math.Abs(m.variance[k]/variance-1))
					}
				}
			}
		}
	}
}

// inference plans x → batch normalisation → ReLU for one image of two channels.
func inference(t *testing.T) (*plan.Plan, *op.BatchNormState) {
	t.Helper()
	g := gorgonia.NewGraph()
	leaf := func(name string, role op.Role, shape ...int) *gorgonia.Node {
		n := gorgonia.NewTensor(g, tensor.Float32, len(shape), gorgonia.WithShape(shape...), gorgonia.WithName(name))
		op.RegistryOf(g).SetRole(n, role)
		return n
	}
	ones := func() *tensor.Dense { return tensor.Ones(tensor.Float32, 2) }
	state := &op.BatchNormState{Name: "bn", Mean: ones(), Var: ones()}
	gamma, beta := leaf("gamma", op.RoleParameter, 2), leaf("beta", op.RoleParameter, 2)
	y, err := op.Apply(&op.BatchNorm2D{Eps: 1e-9, Momentum: 0.1, State: state, Mode: op.RegistryOf(g).Mode}, leaf("x", op.RoleInput, 1, 2, 1, 3), gamma, beta)
	if err != nil {
		t.Fatal(err)
	}
	if y, err = op.Apply(&op.Take{Shape: tensor.Shape{1, 2, 1, 3}, From: 4}, y); err != nil {
		t.Fatal(err)
	}
	if y, err = op.Apply(&op.ReLU{}, y); err != nil {
		t.Fatal(err)
	}
	p, err := plan.Build(plan.Request{Root: y, Params: gorgonia.Nodes{gamma, beta}, Inference: true})
	if err != nil {
		t.Fatal(err)
	}
	return p, state
}

func TestExecutorRunsAPlanInTheHostsMemory(t *testing.T) {
	p, _ := inference(t)
	threads := pool.New(1)
	defer threads.Close()
	x := []float32{1, 2, 3, 4, 5, 6} // NCHW
	host := &plan.Host{
		Inputs: []plan.HostInput{{Data: x, Tensor: tensor.New(tensor.WithShape(1, 2, 1, 3), tensor.WithBacking(x))}},
		Params: [][]float32{{1, 2}, {0, -10}},
		States: map[string]*plan.State{"bn": {Mean: []float32{2, 0}, Var: []float32{1, 4}}},
	}
	if _, err := New(p, host, Config{Pool: threads, Room: 50}); err == nil || !strings.Contains(err.Error(), "this machine has") {
		t.Errorf("with 50 bytes of memory: got error %v, want one that says what the machine has", err)
	}
	e, err := New(p, host, Config{Pool: threads})
	if err != nil {
		t.Fatal(err)
	}
	want := func(want ...float32) {
		t.Helper()
		if err := e.Run(t.Context(), true, plan.Hooks{}); err != nil {
			t.Fatal(err)
		}
		got, err := e.Output(p.Loss)
		if err != nil {
			t.Fatal(err)
		}
		for i := range want {
			if math.Abs(float64(got[i]-want[i])) > 1e-5 {
				t.Errorf("got %v, want %v", got, want)
				return
			}
		}
	}

	// The values are (x−2)/1 and 2·x/2 − 10, not below 0.
	want(0, 0, 1, 0, 0, 0)
	host.Params[1][1] = -5
	x[0] = 7
	want(5, 0, 1, 0, 0, 1)
}

func TestNewNamesAStateThatIsMissing(t *testing.T) {
	p, _ := inference(t)
	threads := pool.New(1)
	defer threads.Close()
	_, err := New(p, &plan.Host{}, Config{Pool: threads})
	if err == nil || !strings.Contains(err.Error(), `"bn"`) || !strings.Contains(err.Error(), "BatchNorm") {
		t.Errorf("got error %v, want one that names BatchNorm and bn", err)
	}
}

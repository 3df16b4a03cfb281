package attention

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/compute/op"
	"github.com/paragon-train/paragon/internal/compute/pool"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// A problem is an attention with its arguments, in float32 and as the op takes them.
type problem struct {
	Shape
	op   *op.Attention
	in   Inputs
	do   []float32
	args []gorgonia.Value
}

func numbers(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = f32.BFloat16Value(f32.BFloat16Bits(float32(r.NormFloat64())))
	}
	return x
}

func dense(x []float32, shape ...int) *tensor.Dense {
	d := make([]float64, len(x))
	for i, v := range x {
		d[i] = float64(v)
	}
	return tensor.New(tensor.WithShape(shape...), tensor.WithBacking(d))
}

func (p *problem) heads(x []float32, n, h int) Heads {
	return Heads{Data: x, Example: n * h * p.D, Position: h * p.D}
}

// newProblem draws numbers, all of which are numbers of bfloat16.
func newProblem(s Shape, rate float64) *problem {
	r := rand.New(rand.NewPCG(uint64(s.T), uint64(s.S)))
	if s.Scale == 0 {
		s.Scale = 1 / math.Sqrt(float64(s.D))
	}
	s.Heads, s.KVHeads, s.Bias = s.H, s.Hk, s.BiasB > 0
	p := &problem{op: &op.Attention{AttentionForm: s.AttentionForm, Rate: rate, Seed: 3, Name: "x", Mode: &op.Mode{Step: 7}}}
	if rate > 0 {
		s.Threshold, s.Keep = p.op.Threshold(), float32(1/(1-rate))
	}
	p.Shape = s
	p.in = Inputs{Q: p.heads(numbers(r, s.B*s.T*s.H*s.D), s.T, s.H), K: p.heads(numbers(r, s.B*s.S*s.Hk*s.D), s.S, s.Hk), V: p.heads(numbers(r, s.B*s.S*s.Hk*s.D), s.S, s.Hk)}
	p.in.Key = p.op.Key(7, 0)
	p.do = numbers(r, s.B*s.T*s.H*s.D)
	p.args = []gorgonia.Value{dense(p.in.Q.Data, s.B, s.T, s.H, s.D), dense(p.in.K.Data, s.B, s.S, s.Hk, s.D), dense(p.in.V.Data, s.B, s.S, s.Hk, s.D)}
	if s.Lengths {
		for b := range s.B {
			p.in.Lengths = append(p.in.Lengths, s.S*(b+1)/(s.B+1))
		}
		p.args = append(p.args, tensor.New(tensor.WithShape(s.B), tensor.WithBacking(p.in.Lengths)))
	}
	if s.Documents {
		for range s.B {
			for d, left := 0, 0; len(p.in.Documents)%s.S != 0 || left == 0; left-- {
				if left == 0 {
					d, left = d+1, 1+r.IntN(s.S)
				}
				p.in.Documents = append(p.in.Documents, d)
				if len(p.in.Documents)%s.S == 0 {
					break
				}
			}
		}
		p.args = append(p.args, tensor.New(tensor.WithShape(s.B, s.S), tensor.WithBacking(p.in.Documents)))
	}
	if s.Bias {
		p.in.Bias = numbers(r, s.BiasB*s.BiasH*s.T*s.S)
		p.args = append(p.args, dense(p.in.Bias, s.BiasB, s.BiasH, s.T, s.S))
	}
	return p
}

// reference is o, lse, dq, dk, dv and, with a bias, dbias of the op's loops.
func (p *problem) reference(t testing.TB) [][]float64 {
	t.Helper()
	v, err := p.op.Do(p.args...)
	if err != nil {
		t.Fatal(err)
	}
	g, err := (&op.AttentionGrad{Forward: p.op}).Do(append(append([]gorgonia.Value{}, p.args...), v, dense(p.do, p.B, p.T, p.H, p.D))...)
	if err != nil {
		t.Fatal(err)
	}
	var out [][]float64
	for _, d := range append(v.(*op.Tuple).Values, g.(*op.Tuple).Values...) {
		out = append(out, d.Data().([]float64))
	}
	return out
}

// results are o, lse, dq, dk, dv and, with a bias, dbias of a plan.
type results struct {
	l       *Plan
	all     [][]float32
	scratch [2][]float32
}

func (p *problem) plan(t testing.TB, tile *f32.Tile, threads *pool.Pool) *results {
	t.Helper()
	l, err := New(p.Shape, tile, threads)
	if err != nil {
		t.Fatal(err)
	}
	r := &results{l: l}
	for _, n := range []int{len(p.do), p.B * p.H * p.T, len(p.in.Q.Data), len(p.in.K.Data), len(p.in.V.Data), len(p.in.Bias)} {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(math.NaN())
		}
		r.all = append(r.all, x)
	}
	// What is in scratch memory must not matter.
	r.scratch = [2][]float32{make([]float32, l.ForwardScratchLen()), make([]float32, max(l.BackwardScratchLen(), l.BiasScratchLen()))}
	for _, s := range r.scratch {
		for i := range s {
			s[i] = float32(math.NaN())
		}
	}
	return r
}

func (r *results) run(p *problem) {
	o, do := p.heads(r.all[0], p.T, p.H), p.heads(p.do, p.T, p.H)
	r.l.Forward(o, r.all[1], p.in, r.scratch[0])
	r.l.Backward(p.heads(r.all[2], p.T, p.H), p.heads(r.all[3], p.S, p.Hk), p.heads(r.all[4], p.S, p.Hk), o, do, r.all[1], p.in, r.scratch[1])
	if p.Bias {
		r.l.BiasGrad(r.all[5], o, do, r.all[1], p.in, r.scratch[1])
	}
}

var names = []string{"o", "lse", "dq", "dk", "dv", "dbias"}

// distance is the largest difference over the largest number; infinite numbers are to be equal.
func distance(got []float32, want []float64) (d float64, at int) {
	scale, worst := 1e-30, -1.0
	for i, w := range want {
		g := float64(got[i])
		switch {
		case g == w:
			continue
		case math.IsInf(w, 0) || math.IsNaN(g):
			return math.Inf(1), i
		}
		scale = max(scale, math.Abs(w))
		if e := math.Abs(g - w); e > worst {
			worst, at = e, i
		}
	}
	return worst / scale, at
}

func sizes(b, t, s, h, hk, d int) op.AttentionSizes {
	return op.AttentionSizes{B: b, T: t, S: s, H: h, Hk: hk, D: d}
}

// problems are shapes of all kinds.
func problems() []*problem {
	causal := op.AttentionForm{Causal: true}
	return []*problem{
		newProblem(Shape{AttentionSizes: sizes(1, 1, 1, 1, 1, 1)}, 0),
		newProblem(Shape{AttentionSizes: sizes(2, 37, 37, 2, 2, 16), AttentionForm: causal}, 0),
		newProblem(Shape{AttentionSizes: sizes(1, 250, 250, 2, 1, 64), AttentionForm: causal}, 0),
		newProblem(Shape{AttentionSizes: sizes(2, 33, 231, 3, 1, 40)}, 0),
		newProblem(Shape{AttentionSizes: sizes(1, 100, 301, 4, 2, 7), AttentionForm: causal}, 0),
		newProblem(Shape{AttentionSizes: sizes(20, 9, 9, 2, 1, 8), AttentionForm: causal}, 0),
		newProblem(Shape{AttentionSizes: sizes(3, 70, 70, 2, 2, 33), AttentionForm: op.AttentionForm{Lengths: true}}, 0),
		newProblem(Shape{AttentionSizes: sizes(2, 230, 230, 2, 2, 16), AttentionForm: op.AttentionForm{Causal: true, Documents: true}}, 0),
		newProblem(Shape{AttentionSizes: sizes(2, 61, 120, 2, 2, 16), AttentionForm: op.AttentionForm{Documents: true, Lengths: true}}, 0),
		newProblem(Shape{AttentionSizes: sizes(2, 120, 120, 3, 3, 16), AttentionForm: op.AttentionForm{Causal: true, ALiBi: true}}, 0),
		newProblem(Shape{AttentionSizes: sizes(2, 50, 130, 2, 2, 16), AttentionForm: causal, BiasB: 1, BiasH: 2}, 0),
		newProblem(Shape{AttentionSizes: sizes(2, 50, 50, 2, 2, 16), AttentionForm: op.AttentionForm{ALiBi: true, Lengths: true}, BiasB: 2, BiasH: 1}, 0),
		newProblem(Shape{AttentionSizes: sizes(2, 100, 100, 2, 2, 16), AttentionForm: causal}, 0.3),
		newProblem(Shape{AttentionSizes: sizes(1, 40, 40, 1, 1, 16), AttentionForm: op.AttentionForm{Causal: true, Scale: -0.3}}, 0),
	}
}

func (p *problem) String() string {
	return fmt.Sprintf("%+v %v bias %d %d threshold %d", p.AttentionSizes, &p.AttentionForm, p.BiasB, p.BiasH, p.Threshold)
}

func TestPassesAreThoseOfTheOp(t *testing.T) {
	threads := pool.New(2)
	defer threads.Close()
	tiles := map[string]*f32.Tile{}
	for _, path := range f32.Available() {
		tiles[path.String()], tiles[path.String()+" pairs"] = f32.Tiles(path), f32.PairTiles(path)
	}
	for _, p := range problems() {
		want := p.reference(t)
		for name, tile := range tiles {
			r := p.plan(t, tile, threads)
			r.run(p)
			for i, w := range want {
				// P and dS are rounded to 8 bits with pairs.
				tolerance := 3e-6
				if tile.Pairs() && i != 1 {
					tolerance = 2e-2
				}
				if d, at := distance(r.all[i], w); d > tolerance {
					t.Errorf("%s of %v, %s: at %d it is %g, want %g: off by %.2g of the largest", names[i], p, name, at, r.all[i][at], w[at], d)
				}
			}
		}
	}
}

func TestAnyNumberOfThreadsGivesTheSameBits(t *testing.T) {
	for _, p := range problems() {
		for _, tile := range []*f32.Tile{f32.Tiles(f32.Active()), f32.PairTiles(f32.Active())} {
			var first *results
			for _, n := range []int{1, 2, 3, 7} {
				threads := pool.New(n)
				r := p.plan(t, tile, threads)
				r.run(p)
				threads.Close()
				if first == nil {
					first = r
				}
				for i, x := range r.all {
					for j := range x {
						if math.Float32bits(x[j]) != math.Float32bits(first.all[i][j]) {
							t.Fatalf("%s of %v at %d: %g with %d threads, %g with one", names[i], p, j, x[j], n, first.all[i][j])
						}
					}
				}
			}
		}
	}
}

func TestRunsAllocateNothing(t *testing.T) {
	threads := pool.New(2)
	defer threads.Close()
	for _, p := range problems() {
		r := p.plan(t, f32.Tiles(f32.Active()), threads)
		r.run(p)
		if n := testing.AllocsPerRun(3, func() { r.run(p) }); n > 0 {
			t.Errorf("%v: %g allocations", p, n)
		}
	}
}

// Scratch memory grows with the number of positions, not with its square.
func TestMemoryIsLinearInPositions(t *testing.T) {
	threads := pool.New(2)
	defer threads.Close()
	need := func(n int) int {
		l, err := New(Shape{AttentionSizes: sizes(1, n, n, 2, 2, 64), AttentionForm: op.AttentionForm{Causal: true, Scale: 1}}, f32.Tiles(f32.Active()), threads)
		if err != nil {
			t.Fatal(err)
		}
		return l.ForwardScratchLen() + l.BackwardScratchLen()
	}
	if a, b := need(4096), need(8192); b > 2*a+a/10 {
		t.Errorf("%d positions need %d values and twice as many %d", 4096, a, b)
	}
}

// benchmark measures a pass of long sequences, and of those of a small model, whose q, k and v lie
// side by side.
func benchmark(b *testing.B, tile *f32.Tile, backward bool) {
	threads := pool.New(0)
	defer threads.Close()
	for _, z := range []op.AttentionSizes{sizes(4, 1024, 1024, 6, 6, 64), sizes(16, 256, 256, 6, 6, 64)} {
		p := newProblem(Shape{AttentionSizes: z, AttentionForm: op.AttentionForm{Causal: true}}, 0)
		r := p.plan(b, tile, threads)
		width := z.H * z.D
		all, grads := make([]float32, 3*z.B*z.T*width), make([]float32, 3*z.B*z.T*width)
		for i := range all {
			all[i] = p.in.Q.Data[i%len(p.in.Q.Data)]
		}
		part := func(x []float32, i int) Heads {
			return Heads{Data: x[i*width:], Example: 3 * z.T * width, Position: 3 * width}
		}
		p.in.Q, p.in.K, p.in.V = part(all, 0), part(all, 1), part(all, 2)
		o, do := p.heads(r.all[0], p.T, p.H), p.heads(p.do, p.T, p.H)
		r.l.Forward(o, r.all[1], p.in, r.scratch[0])
		b.Run(fmt.Sprintf("B=%d/T=%d", z.B, z.T), func(b *testing.B) {
			for b.Loop() {
				if backward {
					r.l.Backward(part(grads, 0), part(grads, 1), part(grads, 2), o, do, r.all[1], p.in, r.scratch[1])
				} else {
					r.l.Forward(o, r.all[1], p.in, r.scratch[0])
				}
			}
			flops := 2.0 * float64(p.B*p.H*p.T*p.S*p.D)
			if backward {
				flops *= 2.5
			}
			b.ReportMetric(flops*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
		})
	}
}

func BenchmarkForward(b *testing.B)          { benchmark(b, f32.Tiles(f32.Active()), false) }
func BenchmarkBackward(b *testing.B)         { benchmark(b, f32.Tiles(f32.Active()), true) }
func BenchmarkForwardBFloat16(b *testing.B)  { benchmark(b, f32.PairTiles(f32.Active()), false) }
func BenchmarkBackwardBFloat16(b *testing.B) { benchmark(b, f32.PairTiles(f32.Active()), true) }

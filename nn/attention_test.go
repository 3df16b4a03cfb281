package nn_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/compute/op"
	"github.com/paragon-train/paragon/internal/compute/ref"
	"github.com/paragon-train/paragon/nn"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// An array is one of an oracle's, row-major; null is −∞.
type array struct {
	Shape []int
	Data  []*float64
}

// numbers are those of the array in the order of the given axes.
func (a array) numbers(axes ...int) []float64 {
	out := make([]float64, len(a.Data))
	strides := make([]int, len(a.Shape))
	for i, stride := len(a.Shape)-1, 1; i >= 0; i-- {
		strides[i], stride = stride, stride*a.Shape[i]
	}
	for k := range out {
		at, rest := 0, k
		for i := len(a.Shape) - 1; i >= 0; i-- {
			axis := i
			if len(axes) > 0 {
				axis = axes[i]
			}
			at += rest % a.Shape[axis] * strides[axis]
			rest /= a.Shape[axis]
		}
		out[k] = math.Inf(-1)
		if a.Data[at] != nil {
			out[k] = *a.Data[at]
		}
	}
	return out
}

// headsInside turns (B,H,T,D) into (B,T,H,D).
func (a array) headsInside() (numbers []float64, shape []int) {
	s := a.Shape
	return a.numbers(0, 2, 1, 3), []int{s[0], s[2], s[1], s[3]}
}

func readOracles[T any](t *testing.T, file string) []T {
	t.Helper()
	text, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	var all struct{ Cases []T }
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return all.Cases
}

type attentionOracle struct {
	Name       string
	Attributes struct {
		Causal bool
		Scale  string
	}
	Inputs          struct{ Q, K, V array }
	Outputs         struct{ O array }
	OutputGradients struct{ DO array }         `json:"output_gradients"`
	InputGradients  struct{ DQ, DK, DV array } `json:"input_gradients"`
	Length          *array                     `json:"lengths"`
	First           *array                     `json:"first_key"`
	Document        *array                     `json:"document"`
	Slopes          *array                     `json:"slopes"`
}

// parameter is a trained leaf with the given numbers.
func parameter(g *gorgonia.ExprGraph, dt tensor.Dtype, name string, numbers []float64, shape ...int) *gorgonia.Node {
	n := gorgonia.NewTensor(g, dt, len(shape), gorgonia.WithShape(shape...), gorgonia.WithName(name), gorgonia.WithValue(values(dt, numbers, shape...)))
	op.RegistryOf(g).SetRole(n, op.RoleParameter)
	return n
}

func values(dt tensor.Dtype, numbers []float64, shape ...int) *tensor.Dense {
	switch dt {
	case tensor.Float64:
		return tensor.New(tensor.WithShape(shape...), tensor.WithBacking(append([]float64(nil), numbers...)))
	case tensor.Int32:
		return tensor.New(tensor.WithShape(shape...), tensor.WithBacking(converted[int32](numbers)))
	}
	return tensor.New(tensor.WithShape(shape...), tensor.WithBacking(converted[float32](numbers)))
}

func converted[T int32 | float32](x []float64) []T {
	out := make([]T, len(x))
	for i, v := range x {
		out[i] = T(v)
	}
	return out
}

// An attentionGraph is an oracle's attention with the loss Σ o⊙do.
type attentionGraph struct {
	loss, o *gorgonia.Node
	ints    map[string][]float64
	do      []float64
}

// build makes the graph, with q, k and v apart or packed in one array.
func (c *attentionOracle) build(dt tensor.Dtype, packed bool) (a attentionGraph) {
	g := gorgonia.NewGraph()
	nn.Configure(g, nn.GraphConfig{Float64: dt == tensor.Float64})
	q, qs := c.Inputs.Q.headsInside()
	k, ks := c.Inputs.K.headsInside()
	v, _ := c.Inputs.V.headsInside()
	cfg := nn.AttentionConfig{Causal: c.Attributes.Causal, ALiBi: c.Slopes != nil}
	if c.Attributes.Scale != "" {
		cfg.Scale, _ = strconv.ParseFloat(c.Attributes.Scale, 64)
	}
	a.ints = make(map[string][]float64)
	if c.Length != nil {
		cfg.Lengths = nn.IDs(g, "lengths", qs[0])
		a.ints["lengths"] = c.Length.numbers()
	}
	if c.Document != nil {
		cfg.Documents = nn.IDs(g, "documents", qs[0], ks[1])
		a.ints["documents"] = c.Document.numbers()
	}
	if c.First != nil {
		// Keys in front of the first one are left out by a bias, in its gradient too.
		bias := make([]float64, qs[0]*qs[1]*ks[1])
		for b, first := range c.First.numbers() {
			for i := range qs[1] {
				for j := range int(first) {
					bias[(b*qs[1]+i)*ks[1]+j] = math.Inf(-1)
				}
			}
		}
		cfg.Bias = parameter(g, dt, "bias", bias, qs[0], 1, qs[1], ks[1])
	}
	if packed {
		all, width := sideBySide(qs[0]*qs[1], q, k, v)
		qkv := parameter(g, dt, "qkv", all, qs[0], qs[1], width)
		a.o = nn.SelfAttention(qkv, qs[2], ks[2], cfg)
	} else {
		a.o = nn.Attention(parameter(g, dt, "q", q, qs...), parameter(g, dt, "k", k, ks...), parameter(g, dt, "v", v, ks...), cfg)
	}
	a.do, _ = c.OutputGradients.DO.headsInside()
	weights := nn.Input(g, "do", a.o.Shape()...)
	a.loss = gorgonia.Must(gorgonia.Sum(gorgonia.Must(gorgonia.HadamardProd(a.o, weights))))
	return a
}

// sideBySide joins arrays row by row.
func sideBySide(rows int, arrays ...[]float64) (all []float64, width int) {
	for r := range rows {
		for _, x := range arrays {
			n := len(x) / rows
			all = append(all, x[r*n:(r+1)*n]...)
		}
	}
	return all, len(all) / rows
}

// want has the gradients by the names of parameters.
func (c *attentionOracle) want(packed bool) map[string][]float64 {
	dq, qs := c.InputGradients.DQ.headsInside()
	dk, _ := c.InputGradients.DK.headsInside()
	dv, _ := c.InputGradients.DV.headsInside()
	if !packed {
		return map[string][]float64{"q": dq, "k": dk, "v": dv}
	}
	all, _ := sideBySide(qs[0]*qs[1], dq, dk, dv)
	return map[string][]float64{"qkv": all}
}

// forms calls f for both forms of each oracle that has them.
func forms(t *testing.T, f func(t *testing.T, c *attentionOracle, packed bool)) {
	for _, c := range readOracles[attentionOracle](t, "attention.json") {
		for _, packed := range []bool{false, true} {
			if packed && c.Inputs.Q.Shape[2] != c.Inputs.K.Shape[2] {
				continue
			}
			t.Run(fmt.Sprintf("%s, packed %t", strings.SplitN(c.Name, ":", 2)[0], packed), func(t *testing.T) { f(t, &c, packed) })
		}
	}
}

func TestAttentionsLoopsGiveWhatTorchGives(t *testing.T) {
	forms(t, func(t *testing.T, c *attentionOracle, packed bool) {
		a := c.build(tensor.Float64, packed)
		r, err := ref.New(a.loss)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		for name, x := range a.ints {
			if err := r.Set(name, x); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.Set("do", a.do); err != nil {
			t.Fatal(err)
		}
		if err := r.Step(); err != nil {
			t.Fatal(err)
		}
		o, _ := c.Outputs.O.headsInside()
		got, err := r.Eval(a.o)
		if err != nil {
			t.Fatal(err)
		}
		near(t, "o", converted[float32](got), o, 1e-6)
		for name, want := range c.want(packed) {
			near(t, "gradient of "+name, converted[float32](r.Grad(name)), want, 1e-6)
		}
		if c.First != nil {
			for i, d := range r.Grad("bias") {
				if math.IsNaN(d) {
					t.Fatalf("gradient of the bias at %d is %g", i, d)
				}
			}
		}
	})
}

type rotaryOracle struct {
	Name       string
	Attributes struct {
		Size  int     `json:"rotary_dim"`
		Base  float64 `json:"base"`
		First int     `json:"first_position"`
	}
	Inputs          struct{ X array }
	Outputs         struct{ Y array }
	OutputGradients struct{ DY array } `json:"output_gradients"`
	InputGradients  struct{ DX array } `json:"input_gradients"`
	Heads           int
	Slopes          array
}

func (c *rotaryOracle) config() nn.RotaryConfig {
	return nn.RotaryConfig{Base: c.Attributes.Base, Size: c.Attributes.Size, First: c.Attributes.First, Interleaved: strings.Contains(c.Name, "interleaved")}
}

// build makes the graph with the loss Σ y⊙dy. first gives the position as an input.
func (c *rotaryOracle) build(dt tensor.Dtype, first bool) (loss, y *gorgonia.Node, dy []float64) {
	g := gorgonia.NewGraph()
	nn.Configure(g, nn.GraphConfig{Float64: dt == tensor.Float64})
	numbers, shape := c.Inputs.X.headsInside()
	x := parameter(g, dt, "x", numbers, shape...)
	if first {
		cfg := c.config()
		cfg.First = 0
		y = nn.TurnFrom(x, cfg, nn.IDs(g, "first", shape[0]))
	} else {
		y = nn.Rotary(x, c.config())
	}
	dy, _ = c.OutputGradients.DY.headsInside()
	return gorgonia.Must(gorgonia.Sum(gorgonia.Must(gorgonia.HadamardProd(y, nn.Input(g, "dy", shape...))))), y, dy
}

func TestRotarysLoopsGiveWhatTorchGives(t *testing.T) {
	for _, c := range readOracles[rotaryOracle](t, "rotary.json") {
		if c.Inputs.X.Data == nil {
			continue
		}
		for _, first := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s %+v, first given %t", c.Name, c.Attributes, first), func(t *testing.T) {
				loss, node, dy := c.build(tensor.Float64, first)
				r, err := ref.New(loss)
				if err != nil {
					t.Fatal(err)
				}
				defer r.Close()
				if first {
					if err := r.Set("first", []float64{float64(c.Attributes.First)}); err != nil {
						t.Fatal(err)
					}
				}
				if err := r.Set("dy", dy); err != nil {
					t.Fatal(err)
				}
				if err := r.Step(); err != nil {
					t.Fatal(err)
				}
				y, _ := c.Outputs.Y.headsInside()
				got, err := r.Eval(node)
				if err != nil {
					t.Fatal(err)
				}
				near(t, "y", converted[float32](got), y, 1e-6)
				dx, _ := c.InputGradients.DX.headsInside()
				near(t, "dx", converted[float32](r.Grad("x")), dx, 1e-6)
			})
		}
	}
}

func TestALiBisSlopesAreThoseOfThePaper(t *testing.T) {
	n := 0
	for _, c := range readOracles[rotaryOracle](t, "rotary.json") {
		if c.Heads == 0 {
			continue
		}
		n++
		near(t, fmt.Sprintf("slopes of %d heads", c.Heads), converted[float32](op.ALiBiSlopes(c.Heads)), c.Slopes.numbers(), 1e-6)
	}
	if n != 7 {
		t.Errorf("got %d lists of slopes, want 7", n)
	}
}

// compiled compiles a loss for some threads, gives it its inputs and runs a step.
func compiled(t *testing.T, loss *gorgonia.Node, cfg nn.Config, ints map[string][]float64, inputs map[string][]float64) *nn.Program {
	t.Helper()
	p, err := nn.Compile(loss, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	for name, x := range ints {
		ids, err := p.IDs(name)
		if err != nil {
			t.Fatal(err)
		}
		ids.Set(converted[int32](x))
	}
	for name, x := range inputs {
		in, err := p.Input(name)
		if err != nil {
			t.Fatal(err)
		}
		copy(in, converted[float32](x))
	}
	if err := p.Step(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestAttentionGivesWhatTorchGives(t *testing.T) {
	forms(t, func(t *testing.T, c *attentionOracle, packed bool) {
		var first *nn.Program
		for _, threads := range []int{1, 2, 5} {
			a := c.build(tensor.Float32, packed)
			p := compiled(t, a.loss, nn.Config{Threads: threads, Outputs: gorgonia.Nodes{a.o}}, a.ints, map[string][]float64{"do": a.do})
			o, _ := c.Outputs.O.headsInside()
			got, err := p.Output(a.o)
			if err != nil {
				t.Fatal(err)
			}
			tolerance := 1e-5
			if strings.Contains(c.Name, "large scores") {
				// Scores of 400, and their lse, are off by 3e-5 each when they are rounded.
				tolerance = 2e-4
			}
			near(t, "o", got, o, tolerance)
			for _, q := range p.Params() {
				if want, ok := c.want(packed)[q.Name]; ok {
					near(t, "gradient of "+q.Name, q.Gradient, want, tolerance)
				}
			}
			if first == nil {
				first = p
				continue
			}
			for i, q := range p.Params() {
				for j, d := range q.Gradient {
					if math.Float32bits(d) != math.Float32bits(first.Params()[i].Gradient[j]) {
						t.Fatalf("gradient of %s at %d: with %d threads %g, with one %g", q.Name, j, threads, d, first.Params()[i].Gradient[j])
					}
				}
			}
		}
	})
}

func TestRotaryGivesWhatTorchGives(t *testing.T) {
	for _, c := range readOracles[rotaryOracle](t, "rotary.json") {
		if c.Inputs.X.Data == nil {
			continue
		}
		for _, first := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s %+v, first given %t", c.Name, c.Attributes, first), func(t *testing.T) {
				loss, node, dy := c.build(tensor.Float32, first)
				ints := make(map[string][]float64)
				if first {
					ints["first"] = []float64{float64(c.Attributes.First)}
				}
				p := compiled(t, loss, nn.Config{Threads: 2, Outputs: gorgonia.Nodes{node}}, ints, map[string][]float64{"dy": dy})
				y, _ := c.Outputs.Y.headsInside()
				got, err := p.Output(node)
				if err != nil {
					t.Fatal(err)
				}
				near(t, "y", got, y, 1e-6)
				dx, _ := c.InputGradients.DX.headsInside()
				near(t, "dx", p.Params()[0].Gradient, dx, 1e-6)
			})
		}
	}
}

// tokenGraph is attention with rotary positions of T positions of a batch, over a cache if there is
// one.
func tokenGraph(batch, positions int, cache *nn.KVCache, cfg nn.AttentionConfig) *gorgonia.Node {
	g := gorgonia.NewGraph()
	cfg.Causal, cfg.Rotary = true, &nn.RotaryConfig{Size: 4}
	if cache != nil {
		cfg.Cache, cfg.First = cache, nn.IDs(g, "first", batch)
	}
	return nn.SelfAttention(nn.Input(g, "qkv", batch, positions, (4+2*2)*6), 4, 2, cfg)
}

// A prompt and then one token after the other give what all of them give at once, and an example may
// begin again.
func TestCachedAttentionGoesOnWhereItStopped(t *testing.T) {
	const batch, all, prompt, width, out = 2, 14, 9, 48, 24
	for _, cfg := range []nn.AttentionConfig{{}, {ALiBi: true}} {
		whole := tokenGraph(batch, all, nil, cfg)
		p, err := nn.Compile(whole, nn.Config{Inference: true, Threads: 2})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		qkv, err := p.Input("qkv")
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(1, 2))
		for i := range qkv {
			qkv[i] = float32(rng.NormFloat64())
		}
		if err := p.Forward(t.Context()); err != nil {
			t.Fatal(err)
		}
		want, err := p.Output(whole)
		if err != nil {
			t.Fatal(err)
		}
		cache := nn.NewKVCache("layer", 20)
		for range 2 {
			for _, part := range [][2]int{{0, prompt}, {prompt, prompt + 1}, {prompt + 1, prompt + 2}, {prompt + 2, all}} {
				from, n := part[0], part[1]-part[0]
				root := tokenGraph(batch, n, cache, cfg)
				q, err := nn.Compile(root, nn.Config{Inference: true, Threads: 2})
				if err != nil {
					t.Fatal(err)
				}
				first, err := q.IDs("first")
				if err != nil {
					t.Fatal(err)
				}
				first.Set([]int32{int32(from), int32(from)})
				in, err := q.Input("qkv")
				if err != nil {
					t.Fatal(err)
				}
				for b := range batch {
					copy(in[b*n*width:(b+1)*n*width], qkv[(b*all+from)*width:])
				}
				if err := q.Forward(t.Context()); err != nil {
					t.Fatal(err)
				}
				got, err := q.Output(root)
				if err != nil {
					t.Fatal(err)
				}
				for b := range batch {
					rows := make([]float64, n*out)
					for i := range rows {
						rows[i] = float64(want[(b*all+from)*out+i])
					}
					near(t, fmt.Sprintf("positions from %d of example %d", from, b), got[b*n*out:(b+1)*n*out], rows, 1e-5)
				}
				q.Close()
			}
		}
	}
}

func TestACacheRefusesPositionsThatItHasNoRoomFor(t *testing.T) {
	root := tokenGraph(1, 1, nn.NewKVCache("h.0", 8), nn.AttentionConfig{})
	p, err := nn.Compile(root, nn.Config{Inference: true})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	first, err := p.IDs("first")
	if err != nil {
		t.Fatal(err)
	}
	first.Set([]int32{8})
	if err := p.Forward(t.Context()); err == nil || !strings.Contains(err.Error(), `begins at position 8 and has 1, and the cache "h.0" has room for 8`) {
		t.Errorf("got error %v, want one that says what there is room for", err)
	}
}

// Dropout drops what the loops drop, in both passes, and nothing in an evaluation.
func TestDropoutOfAttentionIsThatOfTheLoops(t *testing.T) {
	build := func(dt tensor.Dtype) (loss, o *gorgonia.Node, x []float64) {
		g := gorgonia.NewGraph()
		nn.Configure(g, nn.GraphConfig{Float64: dt == tensor.Float64, Seed: 5})
		rng := rand.New(rand.NewPCG(3, 4))
		x = make([]float64, 2*40*3*12)
		for i := range x {
			x[i] = rng.NormFloat64()
		}
		o = nn.SelfAttention(parameter(g, dt, "qkv", x, 2, 40, 36), 2, 2, nn.AttentionConfig{Causal: true, Dropout: 0.4, Name: "drop"})
		return gorgonia.Must(gorgonia.Sum(gorgonia.Must(gorgonia.HadamardProd(o, nn.Input(g, "do", 2, 40, 12))))), o, x[:2*40*12]
	}
	loss, _, do := build(tensor.Float64)
	r, err := ref.New(loss)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := r.Set("do", do); err != nil {
		t.Fatal(err)
	}
	loss32, _, _ := build(tensor.Float32)
	p := compiled(t, loss32, nn.Config{Threads: 2}, nil, map[string][]float64{"do": do})
	for step := range 2 {
		if step > 0 {
			if err := p.Step(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.Step(); err != nil {
			t.Fatal(err)
		}
		near(t, fmt.Sprintf("gradient of step %d", step), p.Params()[0].Gradient, r.Grad("qkv"), 1e-5)
	}
}

// What a training program keeps for attention is a quarter at most of what one that keeps P would.
func TestAttentionKeepsNothingOfTheSquareOfPositions(t *testing.T) {
	const batch, positions, heads, size = 4, 1024, 6, 64
	g := gorgonia.NewGraph()
	qkv := parameter(g, tensor.Float32, "qkv", make([]float64, batch*positions*3*heads*size), batch, positions, 3*heads*size)
	o := nn.SelfAttention(qkv, heads, heads, nn.AttentionConfig{Causal: true})
	p, err := nn.Compile(gorgonia.Must(gorgonia.Sum(gorgonia.Must(gorgonia.Square(o)))), nn.Config{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	unfused := int64(4 * batch * heads * positions * (positions + size))
	if got := p.Memory().Arena; got > unfused/4 {
		t.Errorf("values and scratch are %d bytes, and P and o alone would be %d", got, unfused)
	} else {
		t.Logf("values and scratch are %.1f MB; P and o alone would be %.1f", float64(got)/1e6, float64(unfused)/1e6)
	}
}

// A short batch trains on its examples alone.
func TestAttentionOfAShortBatch(t *testing.T) {
	build := func(batch int) *nn.Program {
		g := gorgonia.NewGraph()
		x := nn.Input(g, "x", batch, 5, 12)
		cfg := nn.AttentionConfig{Causal: true, Lengths: nn.IDs(g, "lengths", batch), Dropout: 0.5, Name: "drop"}
		w := parameter(g, tensor.Float32, "scale", []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3}, 1, 1, 12)
		o := nn.SelfAttention(gorgonia.Must(gorgonia.BroadcastHadamardProd(x, w, nil, []byte{0, 1})), 2, 2, cfg)
		y := nn.Linear(nn.Flatten(o), "fc", nn.LinearConfig{Out: 3})
		p, err := nn.Compile(nn.SoftmaxCrossEntropy(y, nn.Labels(g, "labels", batch)), nn.Config{Threads: 2})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Close() })
		return p
	}
	fill := func(p *nn.Program, n int) {
		in, err := p.Input("x")
		if err != nil {
			t.Fatal(err)
		}
		for i := range n * 60 {
			in[i] = float32(math.Sin(float64(i)))
		}
		lengths, err := p.IDs("lengths")
		if err != nil {
			t.Fatal(err)
		}
		lengths.Set([]int32{3, 5}[:n])
		labels, err := p.Labels("labels")
		if err != nil {
			t.Fatal(err)
		}
		labels.Set([]int32{2, 0}[:n])
		if err := p.SetExamples(n); err != nil {
			t.Fatal(err)
		}
		if err := p.Step(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}
	short, whole := build(4), build(2)
	fill(short, 2)
	fill(whole, 2)
	for i, q := range whole.Params() {
		want := make([]float64, len(q.Gradient))
		for j, d := range q.Gradient {
			want[j] = float64(d)
		}
		near(t, "gradient of "+q.Name, short.Params()[i].Gradient, want, 1e-5)
	}
}

func TestAttentionsThatCannotBeAreRefused(t *testing.T) {
	g := gorgonia.NewGraph()
	qkv := nn.Input(g, "qkv", 2, 4, 24)
	cases := []struct {
		build func()
		want  string
	}{
		{func() { nn.SelfAttention(qkv, 5, 1, nn.AttentionConfig{}) }, "24 numbers are no 5 heads of queries and 2·1"},
		{func() { nn.SelfAttention(qkv, 3, 2, nn.AttentionConfig{}) }, "24 numbers are no 3 heads"},
		{func() {
			nn.Attention(nn.Input(g, "q", 2, 4, 3, 2), nn.Input(g, "k", 2, 4, 2, 2), nn.Input(g, "v", 2, 4, 2, 2), nn.AttentionConfig{})
		}, "3 heads of queries over 2 of keys and values, want a multiple"},
		{func() { nn.Rotary(nn.Input(g, "odd", 2, 4, 1, 5), nn.RotaryConfig{}) }, "rotary size is 5 and the head size 5, want an even size"},
		{func() { nn.SelfAttention(qkv, 2, 2, nn.AttentionConfig{Dropout: 0.1}) }, "dropout at rate 0.1 needs a Name"},
		{func() { nn.SelfAttention(qkv, 2, 2, nn.AttentionConfig{Cache: nn.NewKVCache("c", 9)}) }, "a Cache needs First"},
		{func() { nn.SelfAttention(qkv, 2, 2, nn.AttentionConfig{Lengths: nn.IDs(g, "lengths", 3)}) }, "lengths are (3), want (2)"},
	}
	for _, c := range cases {
		func() {
			defer func() {
				if got := fmt.Sprint(recover()); !strings.HasPrefix(got, "nn: ") || !strings.Contains(got, c.want) {
					t.Errorf("got %q, want a panic with %q", got, c.want)
				}
			}()
			c.build()
		}()
	}
}

// A GPU has no kernels for attention: compiling says so, and names the op.
func TestGPUsRefuseAttention(t *testing.T) {
	onFakes(t)
	for want, build := range map[string]func(x *gorgonia.Node) *gorgonia.Node{
		"Attention": func(x *gorgonia.Node) *gorgonia.Node {
			return nn.SelfAttention(x, 2, 1, nn.AttentionConfig{Causal: true})
		},
		"Rotary": func(x *gorgonia.Node) *gorgonia.Node { return nn.Rotary(nn.Reshape(x, 4, 3, 4, 2), nn.RotaryConfig{}) },
		"CachedAttention": func(x *gorgonia.Node) *gorgonia.Node {
			return nn.SelfAttention(x, 2, 1, nn.AttentionConfig{Causal: true, Cache: nn.NewKVCache("c", 8), First: nn.IDs(x.Graph(), "first", 4)})
		},
	} {
		g := gorgonia.NewGraph()
		y := build(nn.Input(g, "x", 4, 3, 8))
		p, err := nn.Compile(y, nn.Config{Device: "cuda:0", Inference: true})
		if err == nil {
			p.Close()
		}
		if err == nil || !strings.Contains(err.Error(), ": "+want+": ") {
			t.Errorf("%s: got error %v, want one that names it", want, err)
		}
	}
}

// Attention behind a projection, with rotary positions that may be turned in its place, trains as the
// loops say, apart and side by side.
func TestAttentionBehindProjections(t *testing.T) {
	const batch, positions, width, heads, kvHeads, size = 3, 11, 12, 4, 2, 6
	build := func(dt tensor.Dtype, packed bool) (*gorgonia.Node, []float64) {
		g := gorgonia.NewGraph()
		nn.Configure(g, nn.GraphConfig{Float64: dt == tensor.Float64, Seed: 9})
		x := nn.Input(g, "x", batch, positions, width)
		cfg := nn.AttentionConfig{Causal: true, Rotary: &nn.RotaryConfig{Size: 4, Base: 50, Interleaved: packed}, Scale: 0.5}
		linear := func(name string, heads int) *gorgonia.Node {
			return nn.Linear(x, name, nn.LinearConfig{Out: heads * size})
		}
		var o *gorgonia.Node
		if packed {
			o = nn.SelfAttention(linear("qkv", heads+2*kvHeads), heads, kvHeads, cfg)
		} else {
			apart := func(x *gorgonia.Node, heads int) *gorgonia.Node { return nn.Reshape(x, batch, positions, heads, size) }
			o = nn.Attention(apart(linear("q", heads), heads), apart(linear("k", kvHeads), kvHeads), apart(linear("v", kvHeads), kvHeads), cfg)
			o = nn.Reshape(o, batch, positions, heads*size)
		}
		y := nn.Linear(o, "proj", nn.LinearConfig{Out: 5})
		numbers := make([]float64, batch*positions*width)
		for i := range numbers {
			numbers[i] = math.Sin(float64(i*i%97)) * 2
		}
		return nn.SequenceCrossEntropy(y, nn.Labels(g, "labels", batch, positions), nn.CrossEntropyConfig{}), numbers
	}
	labels := make([]float64, batch*positions)
	for i := range labels {
		labels[i] = float64(i % 5)
	}
	for _, packed := range []bool{false, true} {
		loss, x := build(tensor.Float64, packed)
		r, err := ref.New(loss)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		for name, numbers := range map[string][]float64{"x": x, "labels": labels} {
			if err := r.Set(name, numbers); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.Step(); err != nil {
			t.Fatal(err)
		}
		for _, dt := range []nn.DType{nn.Float32, nn.BFloat16} {
			loss, x := build(tensor.Float32, packed)
			p := compiled(t, loss, nn.Config{Threads: 2, DType: dt}, map[string][]float64{"labels": labels}, map[string][]float64{"x": x})
			for _, q := range p.Params() {
				tolerance := 1e-5
				if dt == nn.BFloat16 {
					tolerance = 4e-2
				}
				nearScale(t, fmt.Sprintf("%v, packed %t, gradient of %s", dt, packed, q.Name), q.Gradient, r.Grad(q.Name), tolerance, 1e-2)
			}
			if allocs := testing.AllocsPerRun(3, func() {
				if err := p.Step(t.Context(), nil); err != nil {
					t.Fatal(err)
				}
			}); allocs > 8 {
				t.Errorf("%v, packed %t: %g allocations a step", dt, packed, allocs)
			}
		}
	}
}

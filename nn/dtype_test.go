package nn_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/nn"
	"gorgonia.org/gorgonia"
)

// distance is |got − want| / |want| over all gradients of a step.
func distance(p *nn.Program, want func(name string) []float64) float64 {
	var off, size float64
	for _, q := range p.Params() {
		for i, w := range want(q.Name) {
			off += (float64(q.Gradient[i]) - w) * (float64(q.Gradient[i]) - w)
			size += w * w
		}
	}
	return math.Sqrt(off / size)
}

// bfloat16 keeps 8 bits: an operand is off by 2⁻⁸ at most, and errors of the terms of a sum cancel.
// What they move most are ReLUs whose argument is near zero, which a net of few layers has few of.
func TestBFloat16StepsAreNearTheReference(t *testing.T) {
	for _, m := range append(models, joins) {
		if strings.HasPrefix(m.name, "resnet") { // see the next test
			continue
		}
		loss, p := compile(t, m, nn.Config{Threads: 2, DType: nn.BFloat16})
		_, r := reference(t, m)
		fillInputs(t, loss.Graph(), p, r, m.classes, 1)
		step(t, p, nil)
		if err := r.Step(); err != nil {
			t.Fatal(err)
		}
		d := distance(p, r.Grad)
		t.Logf("%s: loss %g, want %g, gradient off by %.2g", m.name, p.Loss(), r.Loss(), d)
		lossOff := 0x1p-8
		if m.name == "inverted residuals" {
			// Five layers round their operands, and three of them are normalised over three images.
			lossOff = 0x1p-7
		}
		near(t, m.name+" loss", []float32{float32(p.Loss())}, []float64{r.Loss()}, lossOff)
		if !(d <= 0x1p-3) {
			t.Errorf("%s: the gradient is off by %.3g of its length, want at most 2⁻³", m.name, d)
		}
	}
}

// The gradient of a deep net with new parameters is a rough function: rounding the weights to
// bfloat16 once, and computing in float32, moves it by a quarter of its length, since it turns over
// some of the ReLUs on each path. Computing in bfloat16 must not move it by more than twice that.
func TestBFloat16GradientsOfResNet18AreAsNearAsThoseOfRoundedWeights(t *testing.T) {
	width, batch := 8, 32
	if nn.BFloat16.Native() {
		width, batch = 32, 8 // wide enough for Winograd
	}
	m := tenClasses("resnet18", batch, []int{3, 16, 16}, func(x *gorgonia.Node) *gorgonia.Node {
		return nn.ResNet18(x, nn.ResNetConfig{Classes: 10, Stem: nn.CIFAR, Width: width})
	})
	run := func(d nn.DType, round bool) *nn.Program {
		loss, p := compile(t, m, nn.Config{Threads: 2, DType: d})
		fillInputs(t, loss.Graph(), p, nil, m.classes, 1)
		for _, q := range p.Params() {
			for i, v := range q.Value {
				if round {
					q.Value[i] = f32.BFloat16Value(f32.BFloat16Bits(v))
				}
			}
		}
		step(t, p, nil)
		return p
	}
	exact, weights, p := run(nn.Float32, false), run(nn.Float32, true), run(nn.BFloat16, false)
	want := map[string][]float64{}
	for _, q := range exact.Params() {
		for _, g := range q.Gradient {
			want[q.Name] = append(want[q.Name], float64(g))
		}
	}
	grad := func(name string) []float64 { return want[name] }
	got, bound := distance(p, grad), 2*distance(weights, grad)
	t.Logf("%s: loss %g, want %g, gradient off by %.2g, of rounded weights by %.2g", m.name, p.Loss(), exact.Loss(), got, bound/2)
	if !(got <= bound) {
		t.Errorf("%s: the gradient is off by %.3g of its length, want at most %.3g", m.name, got, bound)
	}
	near(t, m.name+" loss", []float32{float32(p.Loss())}, []float64{exact.Loss()}, 0x1p-6)
}

// Every kind of operation that can store bfloat16 does so in one of the models that the tests here
// run.
func TestBFloat16IsStoredByEveryKindOfOperationOnImages(t *testing.T) {
	if !f32.StoresBFloat16() {
		t.Skipf("images of bfloat16 are stored as float32 on %v, where that is faster", f32.Active())
	}
	stored := map[string]bool{}
	for _, m := range append(models, joins) {
		_, p := compile(t, m, nn.Config{Threads: 1, DType: nn.BFloat16})
		for line := range strings.Lines(p.Plan()) {
			if op, _, _ := strings.Cut(line, " # "); strings.Contains(op, ":bf16") {
				_, kind, _ := strings.Cut(op, " = ")
				kind, _, _ = strings.Cut(kind, "(")
				stored[strings.TrimSuffix(kind, "+ReLU")] = true
			}
		}
	}
	for _, kind := range strings.Fields("Convert Add ReLU ReLUGrad BiasAdd BiasGrad Conv2D ConvBackwardData ConvBackwardWeight BatchNorm BatchNormGrad MaxPool " +
		"MaxPoolGrad AvgPool AvgPoolGrad GlobalAvgPool GlobalAvgPoolGrad Upsample UpsampleGrad Dropout") {
		if !stored[kind] {
			t.Errorf("no model stores bfloat16 before or behind %s", kind)
		}
	}
}

// Where a CPU multiplies bfloat16 no faster than float32, a program of bfloat16 is that of float32:
// the same operations on the same memory, and the same bits.
func TestBFloat16IsFloat32WhereThatIsAsFast(t *testing.T) {
	if how := f32.BFloat16Products(); how != f32.FloatProducts {
		t.Skipf("products of bfloat16 are by %v", how)
	}
	for _, m := range models {
		run := func(d nn.DType) *nn.Program {
			loss, p := compile(t, m, nn.Config{Threads: 2, DType: d})
			fillInputs(t, loss.Graph(), p, nil, m.classes, 1)
			step(t, p, nil)
			return p
		}
		exact, p := run(nn.Float32), run(nn.BFloat16)
		if p.Plan() != exact.Plan() {
			t.Errorf("%s: the plan in bfloat16 is not that in float32:\n%s\nwant\n%s", m.name, p.Plan(), exact.Plan())
		}
		for i, q := range p.Params() {
			if !slices.Equal(q.Gradient, exact.Params()[i].Gradient) {
				t.Errorf("%s: the gradient of %s is not that in float32", m.name, q.Name)
			}
		}
	}
}

func TestBFloat16NeedsLittleMoreThanHalfTheMemoryBetweenOperations(t *testing.T) {
	if !f32.StoresBFloat16() {
		t.Skipf("images of bfloat16 are stored as float32 on %v, where that is faster", f32.Active())
	}
	m := tenClasses("resnet18", 64, []int{3, 32, 32}, func(x *gorgonia.Node) *gorgonia.Node {
		return nn.ResNet18(x, nn.ResNetConfig{Classes: 10, Stem: nn.CIFAR, Width: 16})
	})
	arena := map[nn.DType]int64{}
	for _, d := range []nn.DType{nn.Float32, nn.BFloat16} {
		_, p := compile(t, m, nn.Config{Threads: 2, DType: d})
		arena[d] = p.Memory().Arena
		t.Logf("%v: %v", d, p.Memory())
	}
	if float64(arena[nn.BFloat16]) > 0.6*float64(arena[nn.Float32]) {
		t.Errorf("the arena takes %d bytes in bfloat16 and %d in float32, want at most 0.6 of that", arena[nn.BFloat16], arena[nn.Float32])
	}
}

// A small residual net learns ten drawn patterns under noise; another batch each step.
func TestBFloat16LearnsAsFloat32Does(t *testing.T) {
	const batch, steps = 16, 60
	patterns := make([]float32, 10*3*8*8)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range patterns {
		patterns[i] = float32(rng.NormFloat64())
	}
	m := tenClasses("learner", batch, []int{3, 8, 8}, func(x *gorgonia.Node) *gorgonia.Node {
		return nn.ResNet18(x, nn.ResNetConfig{Classes: 10, Stem: nn.CIFAR, Width: 8})
	})
	losses := func(d nn.DType) (first, last float64) {
		_, p := compile(t, m, nn.Config{Threads: 2, DType: d})
		in, err := p.Input("x")
		if err != nil {
			t.Fatal(err)
		}
		labels, err := p.Labels("labels")
		if err != nil {
			t.Fatal(err)
		}
		rng, classes := rand.New(rand.NewPCG(3, 4)), make([]int32, batch)
		for n := range steps {
			size := len(in) / batch
			for i := range batch {
				classes[i] = int32(rng.IntN(10))
				for j := range size {
					in[i*size+j] = patterns[int(classes[i])*size+j] + float32(rng.NormFloat64())
				}
			}
			labels.Set(classes)
			step(t, p, nil)
			for _, q := range p.Params() {
				f32.Axpy(q.Value, -0.05, q.Gradient)
			}
			if n < 10 {
				first += p.Loss() / 10
			} else if n >= steps-10 {
				last += p.Loss() / 10
			}
		}
		return first, last
	}
	first, want := losses(nn.Float32)
	_, got := losses(nn.BFloat16)
	t.Logf("loss of the first ten steps %.3f, of the last ten %.3f in float32, %.3f in bfloat16", first, want, got)
	if !(want < first/2) || !(got < first/2) || math.Abs(got-want) > 0.1*first {
		t.Errorf("loss of the last ten steps is %.3f in bfloat16 and %.3f in float32, want less than half of the first ten's %.3f, and within a tenth of that of each other", got, want, first)
	}
}

func TestNumberTypesAreChecked(t *testing.T) {
	for _, d := range []nn.DType{nn.AutoDType, nn.Float32, nn.BFloat16, nn.TF32, nn.Float16} {
		if got, err := nn.ParseDType(d.String()); err != nil || got != d {
			t.Errorf("ParseDType(%q) is %v, %v, want %v", d, got, err, d)
		}
	}
	if d, err := nn.ParseDType("fp8"); err == nil {
		t.Errorf("ParseDType of fp8 is %v, want an error", d)
	}
	for _, c := range []nn.Config{{DType: 7}, {DType: 7, Device: "cuda:0"}, {DType: nn.TF32}, {DType: nn.Float16, Device: "cpu:0"}} {
		if err := c.Validate(); err == nil {
			t.Errorf("%v on %q: no error", c.DType, c.Device)
		}
	}
	for _, d := range []nn.DType{nn.AutoDType, nn.TF32, nn.Float16} {
		if err := (&nn.Config{DType: d, Device: "cuda:0"}).Validate(); err != nil {
			t.Errorf("%v on a GPU: %v", d, err)
		}
	}
}

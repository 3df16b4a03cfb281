package nn_test

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/compute/ref"
	"github.com/paragon-train/paragon/nn"
	"gorgonia.org/gorgonia"
)

// shareable is a network of convolutions, normalisations, a residual, dropout and one of gorgonia's
// ops, for a batch size.
func shareable(batch int) model {
	return tenClasses("shareable", batch, []int{3, 6, 6}, func(x *gorgonia.Node) *gorgonia.Node {
		x = nn.ReLU(nn.BatchNorm2D(conv(x, "conv0", 8, 3, 1, 1), "bn0", nn.BatchNormConfig{}))
		y := nn.BatchNorm2D(conv(x, "conv1", 16, 3, 2, 1), "bn1", nn.BatchNormConfig{})
		z := nn.BatchNorm2D(conv(x, "down", 16, 1, 2, 0), "bn2", nn.BatchNormConfig{})
		x = nn.Dropout(nn.GlobalAvgPool2D(nn.ReLU(nn.Add(y, z))), "drop", 0.3)
		return nn.Linear(gorgonia.Must(gorgonia.Tanh(x)), "fc", nn.LinearConfig{Out: 10})
	})
}

// convNet is a network without dropout.
func convNet(batch int) model {
	return tenClasses("conv net", batch, []int{3, 6, 6}, func(x *gorgonia.Node) *gorgonia.Node {
		x = nn.ReLU(nn.BatchNorm2D(conv(x, "conv0", 8, 3, 1, 1), "bn0", nn.BatchNormConfig{}))
		return nn.Linear(nn.GlobalAvgPool2D(x), "fc", nn.LinearConfig{Out: 10})
	})
}

// foreign is a network of gorgonia's ops alone, whose graph is translated.
func foreign(batch int) model {
	return model{"foreign", 3, func(g *gorgonia.ExprGraph) *gorgonia.Node {
		G := gorgonia.Must
		x := gorgonia.NewMatrix(g, gorgonia.Float32, gorgonia.WithShape(batch, 4), gorgonia.WithName("x"))
		nn.DeclareInput(x)
		return nn.SoftmaxCrossEntropy(G(gorgonia.Mul(G(gorgonia.Sigmoid(G(gorgonia.Mul(x, weight(g, "a", 4, 7))))), weight(g, "b", 7, 3))), nn.Labels(g, "labels", batch))
	}}
}

// A family is programs of one model for several batch sizes that share, each compiled when it is
// first asked for.
type family struct {
	build    func(batch int) model
	cfg      nn.Config
	first    *nn.Program
	programs map[int]*nn.Program
	losses   map[int]*gorgonia.Node
}

func (f *family) program(t *testing.T, batch int) *nn.Program {
	t.Helper()
	if p := f.programs[batch]; p != nil {
		return p
	}
	if f.programs == nil {
		f.programs, f.losses = make(map[int]*nn.Program), make(map[int]*gorgonia.Node)
	}
	cfg := f.cfg
	if f.first != nil { // the rest is the first one's
		cfg = nn.Config{Device: cfg.Device, Threads: cfg.Threads, Share: f.first}
	}
	loss, p := compile(t, f.build(batch), cfg)
	if f.first == nil {
		f.first = p
	}
	f.programs[batch], f.losses[batch] = p, loss
	return p
}

// wantBits reports tensors that differ in a bit.
func wantBits(t *testing.T, what string, got, want []float32) {
	t.Helper()
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			t.Errorf("%s: number %d of %d is %g, want %g", what, i, len(want), got[i], want[i])
			return
		}
	}
}

// learn moves the parameters by their gradients.
func learn(p *nn.Program) {
	for _, q := range p.Params() {
		for i, d := range q.Gradient {
			q.Value[i] -= 0.1 * d
		}
	}
}

// copyModel gives p the parameters and the state of another program.
func copyModel(p, from *nn.Program) {
	for _, of := range [][2][]nn.Param{{p.Params(), from.Params()}, {p.State(), from.State()}} {
		for i, q := range of[1] {
			copy(of[0][i].Value, q.Value)
		}
	}
}

// Steps on programs that share, also short ones, are bit for bit those of a program of its own for
// that batch, given what the last step left.
func TestStepsOnProgramsThatShareAreThoseOfOneTraining(t *testing.T) {
	for _, test := range []struct {
		name  string
		build func(batch int) model
		cfg   nn.Config
	}{
		{"1 thread", shareable, nn.Config{Threads: 1, Seed: 3, GradScale: 4}},
		{"3 threads", shareable, nn.Config{Threads: 3}},
		{"bf16", shareable, nn.Config{Threads: 1, DType: nn.BFloat16}},
		{"translated", foreign, nn.Config{Threads: 1, GradScale: 4}},
	} {
		t.Run(test.name, func(t *testing.T) {
			trainShared(t, test.build, test.cfg, []stepOf{{4, 4}, {4, 4}, {8, 8}, {2, 2}, {8, 5}, {4, 4}, {16, 16}, {8, 8}, {16, 0}, {2, 2}})
		})
	}
}

// A stepOf is a step on a program of a size with some examples.
type stepOf struct{ batch, examples int }

// trainShared trains a family, with programs that come smaller and larger than those before, and
// compares each step.
func trainShared(t *testing.T, build func(batch int) model, cfg nn.Config, steps []stepOf) {
	f := &family{build: build, cfg: cfg}
	for step, n := range steps {
		p := f.program(t, n.batch)
		freshLoss, fresh := compile(t, build(n.batch), cfg)
		copyModel(fresh, f.first)
		fresh.SetStep(uint64(step))
		scale, scales := f.first.LossScale()
		if err := fresh.SetLossScale(scale); scales && err != nil {
			t.Fatal(err)
		}
		for _, of := range []struct {
			p    *nn.Program
			loss *gorgonia.Node
		}{{p, f.losses[n.batch]}, {fresh, freshLoss}} {
			fillInputs(t, of.loss.Graph(), of.p, nil, 3, uint64(step))
			if err := of.p.SetExamples(n.examples); err != nil {
				t.Fatal(err)
			}
			for _, q := range of.p.Params() {
				for i := range q.Gradient {
					q.Gradient[i] = float32(math.NaN())
				}
			}
			if err := of.p.Step(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
		}
		what := func(of string) string { return fmt.Sprintf("step %d, batch %d: %s", step, n.batch, of) }
		wantBits(t, what("loss"), []float32{float32(p.Loss())}, []float32{float32(fresh.Loss())})
		for _, sharing := range f.programs { // all show the same
			for i, q := range sharing.Params() {
				wantBits(t, what(q.Name), q.Value, fresh.Params()[i].Value)
				wantBits(t, what("gradient of "+q.Name), q.Gradient, fresh.Params()[i].Gradient)
			}
			for i, q := range sharing.State() {
				wantBits(t, what(q.Name), q.Value, fresh.State()[i].Value)
			}
		}
		if got, want := fmt.Sprint(f.first.LossScale()), fmt.Sprint(fresh.LossScale()); got != want || f.first.Finite() != fresh.Finite() {
			t.Errorf("%s is %s, finite %t, want %s, %t", what("loss scale"), got, f.first.Finite(), want, fresh.Finite())
		}
		if t.Failed() {
			return
		}
		if err := fresh.Close(); err != nil {
			t.Error(err)
		}
		learn(f.program(t, 4))
	}
	for _, n := range nn.Parameters(f.losses[2].Graph()) { // the graphs show what was learned
		for _, q := range f.first.Params() {
			if q.Name == n.Name() {
				wantBits(t, "leaf "+q.Name, n.Value().Data().([]float32), q.Value)
			}
		}
	}
}

// A graph whose program shares shows the shared values, so that the reference computes with them,
// too.
func TestTheReferenceOfAProgramThatSharesHasItsValues(t *testing.T) {
	f := &family{build: convNet, cfg: nn.Config{Threads: 1}}
	first := f.program(t, 4)
	fillInputs(t, f.losses[4].Graph(), first, nil, 10, 1)
	for range 2 {
		step(t, first, nil)
		learn(first)
	}
	p := f.program(t, 6)
	r, err := ref.New(f.losses[6])
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	fillInputs(t, f.losses[6].Graph(), p, r, 10, 2)
	step(t, p, nil)
	if err := r.Step(); err != nil {
		t.Fatal(err)
	}
	near(t, "loss", []float32{float32(p.Loss())}, []float64{r.Loss()}, tolerance)
	nearGradients(t, "sharing", p, r, tolerance)
}

// A program with a MomentumBatch weighs its batch as so many of that size, and leaves its graph as
// it is.
func TestRunningStatisticsReachBackAsManyExamples(t *testing.T) {
	build := func(batch int, momentum float64) model {
		return tenClasses("normalised", batch, []int{3, 6, 6}, func(x *gorgonia.Node) *gorgonia.Node {
			x = nn.ReLU(nn.BatchNorm2D(conv(x, "conv0", 8, 3, 1, 1), "bn0", nn.BatchNormConfig{Momentum: momentum}))
			return nn.Linear(nn.GlobalAvgPool2D(x), "fc", nn.LinearConfig{Out: 10})
		})
	}
	for _, c := range []struct {
		batch, of int
		momentum  float64
	}{{4, 4, 0.2}, {12, 4, 1 - math.Pow(1-0.2, 3)}, {2, 4, 1 - math.Sqrt(1-0.2)}, {12, 0, 0.2}} {
		first, alone := &family{build: func(batch int) model { return build(batch, 0.2) }, cfg: nn.Config{Threads: 1}}, build(c.batch, c.momentum)
		loss, p := compile(t, build(c.batch, 0.2), nn.Config{Threads: 1, Share: first.program(t, 4), MomentumBatch: c.of})
		other, want := compile(t, alone, nn.Config{Threads: 1})
		for seed := range uint64(2) {
			fillInputs(t, loss.Graph(), p, nil, 10, seed)
			fillInputs(t, other.Graph(), want, nil, 10, seed)
			step(t, p, nil)
			step(t, want, nil)
		}
		for i, s := range want.State() {
			wantBits(t, fmt.Sprintf("batch of %d, momentum for %d: %s", c.batch, c.of, s.Name), p.State()[i].Value, s.Value)
		}
		again, _ := compile(t, build(c.batch, 0.2), nn.Config{Threads: 1})
		if got, same := fmt.Sprint(loss.Graph().AllNodes()), fmt.Sprint(again.Graph().AllNodes()); strings.Count(got, "momentum 0.2") != strings.Count(same, "momentum 0.2") {
			t.Errorf("batch of %d: the graph has changed: %s", c.batch, got)
		}
	}
}

func TestMomentumBatchIsCheckedByName(t *testing.T) {
	for want, cfg := range map[string]nn.Config{
		"Config.MomentumBatch is -1, want at least 1": {MomentumBatch: -1},
		"batch size is not known":                     {MomentumBatch: 4, OwnMask: true},
	} {
		g := gorgonia.NewGraph()
		if _, err := nn.Compile(convNet(4).build(g), cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want one with %q", err, want)
		}
	}
}

// The same on a GPU, where the loss scale is one, too; graphs are captured, and captured anew when
// the memory grows.
func TestStepsOnProgramsThatShareAGPUAreThoseOfOneTraining(t *testing.T) {
	build := func(batch int) model {
		return tenClasses("small", batch, []int{3, 4, 4}, func(x *gorgonia.Node) *gorgonia.Node {
			x = nn.ReLU(nn.BatchNorm2D(conv(x, "conv0", 8, 3, 1, 1), "bn0", nn.BatchNormConfig{}))
			return nn.Linear(nn.Dropout(nn.GlobalAvgPool2D(x), "drop", 0.3), "fc", nn.LinearConfig{Out: 10})
		})
	}
	for _, dtype := range []nn.DType{nn.Float32, nn.Float16} {
		t.Run(dtype.String(), func(t *testing.T) {
			machine := onFakes(t)
			live := fmt.Sprint(machine.Live())
			t.Cleanup(func() { // after the programs were closed
				if got := fmt.Sprint(machine.Live()); got != live {
					t.Errorf("there are %s, want %s as before", got, live)
				}
			})
			trainShared(t, build, nn.Config{Device: "cuda:0", DType: dtype}, []stepOf{{4, 4}, {4, 4}, {4, 4}, {8, 8}, {4, 4}, {2, 2}, {8, 5}, {8, 8}, {2, 0}, {4, 4}})
		})
	}
}

// The memory that all programs take together is that of the largest and the inputs of the others.
func TestProgramsThatShareHaveOneArena(t *testing.T) {
	build := func(batch int) model {
		return tenClasses("wide", batch, []int{3, 16, 16}, func(x *gorgonia.Node) *gorgonia.Node {
			return nn.ResNet18(x, nn.ResNetConfig{Classes: 10, Stem: nn.CIFAR, Width: 8})
		})
	}
	sizes := []int{32, 64, 16, 48}
	inUse := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	alone := make(map[int]nn.Memory)
	for _, batch := range sizes {
		_, p := compile(t, build(batch), nn.Config{Threads: 1})
		alone[batch] = p.Memory()
		p.Close()
	}
	before := inUse()
	f := &family{build: build, cfg: nn.Config{Threads: 1}}
	var sum, arena, inputs int64
	for _, batch := range sizes {
		m := f.program(t, batch).Memory()
		sum += m.Total()
		arena += m.Arena
		inputs += alone[batch].Inputs
		if m.Live != alone[batch].Live || m.Inputs != alone[batch].Inputs {
			t.Errorf("batch %d: inputs take %d bytes and %d are alive at once, want %d and %d as alone", batch, m.Inputs, m.Live, alone[batch].Inputs, alone[batch].Live)
		}
		if m.Arena < 0 || batch != 32 && m.Parameters+m.Gradients != 0 {
			t.Errorf("batch %d takes in addition %v, want no parameters and no gradients", batch, m)
		}
	}
	if arena != alone[64].Arena {
		t.Errorf("the arenas add up to %d bytes, want the largest one's %d", arena, alone[64].Arena)
	}
	if want := alone[64].Total() - alone[64].Inputs + inputs + 3*alone[64].Outputs; sum != want {
		t.Errorf("the memory of the programs adds up to %d bytes, want %d", sum, want)
	}
	for _, batch := range []int{64, 16} { // which takes the memory into use
		step(t, f.program(t, batch), nil)
	}
	took, most := inUse()-before, sum+10<<20 // graphs and tables of convolutions are not in the sum
	t.Logf("4 programs: %d bytes in use; their memory adds up to %d, alone to %d", took, sum, alone[16].Total()+alone[32].Total()+alone[48].Total()+alone[64].Total())
	if took > most {
		t.Errorf("the programs took %d bytes, want at most %d", took, most)
	}
	runtime.KeepAlive(f)
}

// A short batch in a larger program is, but for rounding, that batch in a program of its size.
func TestAShortBatchOfALargerProgramIsThatOfTheExactSize(t *testing.T) {
	f := &family{build: convNet, cfg: nn.Config{Threads: 1}}
	large, small := f.program(t, 16), f.program(t, 6)
	for seed := range uint64(3) {
		state := func() (out [][]float32) {
			for _, q := range f.first.State() {
				out = append(out, slices.Clone(q.Value))
			}
			return out
		}
		before := state()
		fillInputs(t, f.losses[6].Graph(), small, nil, 10, seed)
		x, _ := small.Input("x")
		largeX, _ := large.Input("x")
		for i := range largeX {
			largeX[i] = 1e3
		}
		copy(largeX, x)
		labels, err := large.Labels("labels")
		if err != nil {
			t.Fatal(err)
		}
		classes, err := small.InputTensor("labels")
		if err != nil {
			t.Fatal(err)
		}
		labels.Set(classes.Data().([]int32))
		if err := large.SetExamples(6); err != nil {
			t.Fatal(err)
		}
		step(t, small, nil)
		loss, after := small.Loss(), state()
		var grads [][]float32
		for _, q := range f.first.Params() {
			grads = append(grads, slices.Clone(q.Gradient))
		}
		for i, q := range f.first.State() {
			copy(q.Value, before[i])
		}
		step(t, large, nil)
		near(t, "loss", []float32{float32(large.Loss())}, []float64{loss}, 1e-6)
		for i, q := range f.first.Params() {
			near(t, "gradient of "+q.Name, q.Gradient, doubles(grads[i]), 1e-5)
		}
		for i, q := range f.first.State() {
			near(t, q.Name, q.Value, doubles(after[i]), 1e-6)
		}
		learn(f.first)
	}
}

// What a program for training shares must be alike; the error names the first difference and
// changes nothing.
func TestSharingWithAnotherModelIsAnError(t *testing.T) {
	net := func(build func(x *gorgonia.Node) *gorgonia.Node) model { return tenClasses("net", 4, []int{6}, build) }
	linear := func(x *gorgonia.Node, name string, out int) *gorgonia.Node {
		return nn.Linear(x, name, nn.LinearConfig{Out: out, NoBias: true})
	}
	loss, first := compile(t, net(func(x *gorgonia.Node) *gorgonia.Node { return linear(linear(x, "a", 7), "b", 10) }), nn.Config{Threads: 1, Seed: 5})
	fillInputs(t, loss.Graph(), first, nil, 10, 1)
	step(t, first, nil)
	memory, wantLoss := first.Memory(), first.Loss()
	same := func(x *gorgonia.Node) *gorgonia.Node { return linear(linear(x, "a", 7), "b", 10) }
	for _, test := range []struct {
		name  string
		build func(x *gorgonia.Node) *gorgonia.Node
		cfg   nn.Config
		want  []string
	}{
		{"another name", func(x *gorgonia.Node) *gorgonia.Node { return linear(linear(x, "a", 7), "c", 10) }, nn.Config{},
			[]string{`parameter 1 is "c.weight", of the program to share with "b.weight"`}},
		{"another shape", func(x *gorgonia.Node) *gorgonia.Node { return linear(linear(x, "a", 8), "b", 10) }, nn.Config{},
			[]string{`parameter "a.weight" has shape (8, 6), in the program to share with (7, 6)`}},
		{"one more", func(x *gorgonia.Node) *gorgonia.Node { return linear(linear(linear(x, "a", 7), "b", 10), "c", 10) }, nn.Config{},
			[]string{`parameter 2 is "c.weight", and the program to share with has only 2`}},
		{"one less", func(x *gorgonia.Node) *gorgonia.Node { return linear(nn.ReLU(linear(x, "a", 7)), "a2", 10) }, nn.Config{},
			[]string{`parameter 1 is "a2.weight", of the program to share with "b.weight"`}},
		{"one less at the end", func(x *gorgonia.Node) *gorgonia.Node {
			return gorgonia.Must(gorgonia.Concat(1, linear(x, "a", 7), gorgonia.Must(gorgonia.Slice(x, nil, gorgonia.S(0, 3)))))
		}, nn.Config{}, []string{`it has only 1 parameters, and parameter 1 of the program to share with is "b.weight"`}},
		{"another type", same, nn.Config{DType: nn.BFloat16}, []string{"Config.DType is bf16, of the program to share with float32"}},
		{"another seed", same, nn.Config{Seed: 6}, []string{"Config.Seed is 6, of the program to share with 5"}},
		{"another device", same, nn.Config{Device: "cuda:0"}, []string{"Config.Share is a program on cpu:0, want one on cuda:0"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			cfg := test.cfg
			cfg.Share = first
			p, err := nn.Compile(net(test.build).build(gorgonia.NewGraph()), cfg)
			if err == nil {
				p.Close()
				t.Fatal("got no error")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got error %q, want one with %q", err, want)
				}
			}
		})
	}
	learned := slices.Clone(first.Params()[0].Value)
	step(t, first, nil)
	if first.Loss() != wantLoss || first.Memory() != memory || !slices.Equal(first.Params()[0].Value, learned) {
		t.Errorf("after the errors the loss is %g with memory %v, want %g and %v as before", first.Loss(), first.Memory(), wantLoss, memory)
	}
}

// A program that the machine has no memory for changes nothing in those that it was to share with.
func TestAProgramTooLargeToShareLeavesTheOthersAsTheyAre(t *testing.T) {
	if nn.MachineMemory() == 0 {
		t.Skip("this system does not say how much memory it has")
	}
	const width = 2000
	layers := int(nn.MachineMemory()/(4*width<<20)) + 2
	f := &family{build: func(batch int) model {
		return tenClasses("net", batch, []int{1}, func(x *gorgonia.Node) *gorgonia.Node {
			for i := range layers {
				x = nn.ReLU(nn.Linear(x, fmt.Sprint("layer", i), nn.LinearConfig{Out: width}))
				x = nn.Linear(x, fmt.Sprint("narrow", i), nn.LinearConfig{Out: 1})
			}
			return nn.Linear(x, "fc", nn.LinearConfig{Out: 10})
		})
	}, cfg: nn.Config{Threads: 1}}
	p := f.program(t, 4)
	fillInputs(t, f.losses[4].Graph(), p, nil, 10, 1)
	step(t, p, nil)
	loss, memory := p.Loss(), p.Memory()
	_, err := nn.Compile(f.build(1<<20).build(gorgonia.NewGraph()), nn.Config{Share: p}) // its inputs would fit
	if err == nil || !strings.Contains(err.Error(), "the program and those that it shares with need") || !strings.Contains(err.Error(), "take a smaller batch") {
		t.Errorf("got error %v, want one that says what is needed and what to do", err)
	}
	step(t, p, nil)
	if p.Loss() != loss || p.Memory() != memory {
		t.Errorf("the loss is %g with memory %v, want %g and %v as before", p.Loss(), p.Memory(), loss, memory)
	}
	other := f.program(t, 8)
	fillInputs(t, f.losses[8].Graph(), other, nil, 10, 1)
	step(t, other, nil)
}

// A run beside one of a program that shares is an error, not a wrong result.
func TestOneOfTheProgramsThatShareRunsAtATime(t *testing.T) {
	f := &family{build: shareable, cfg: nn.Config{Threads: 1}}
	a, b := f.program(t, 4), f.program(t, 2)
	for batch, p := range f.programs {
		fillInputs(t, f.losses[batch].Graph(), p, nil, 10, 1)
	}
	calls := 0
	step(t, a, func(int) {
		calls++
		for _, p := range []*nn.Program{a, b} {
			if err := p.Step(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "is running") {
				t.Errorf("a step within a step: got error %v, want one that says that one is running", err)
			}
		}
	})
	if calls == 0 {
		t.Error("no gradient was ready")
	}
	step(t, b, nil)
}

// What is shared lives until the last program is closed, whichever that is.
func TestProgramsThatShareCloseInAnyOrder(t *testing.T) {
	for _, order := range [][]int{{4, 8, 2}, {2, 8, 4}, {8, 4, 2}} {
		f := &family{build: shareable, cfg: nn.Config{Threads: 2}}
		for _, batch := range []int{4, 8, 2} {
			p := f.program(t, batch)
			fillInputs(t, f.losses[batch].Graph(), p, nil, 10, 1)
		}
		for i, batch := range order {
			for _, left := range order[i:] {
				step(t, f.program(t, left), nil)
			}
			if err := f.program(t, batch).Close(); err != nil {
				t.Error(err)
			}
			if err := f.program(t, batch).Step(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "closed") {
				t.Errorf("a step on a closed program: got error %v, want one that says so", err)
			}
		}
	}
}

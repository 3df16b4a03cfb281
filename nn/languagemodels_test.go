package nn_test

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/compute/ref"
	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/optim"
	"gorgonia.org/gorgonia"
)

// A modelOracle is a model with its weights, what it computes in PyTorch's float64, and how it
// trains.
type modelOracle struct {
	Weights map[string]array
	Batches []map[string]array
	Cases   []struct {
		Name    string
		Inputs  map[string]array
		Outputs struct {
			Logits       array
			Loss         float64
			GradientNorm float64 `json:"gradient_norm"`
		}
		Gradients      map[string]struct{ Norm, Probe float64 }
		Losses         []float64
		LossesOfTorch  []float64 `json:"losses_of_torch_float32"`
		Labels         []float64
		Prompt, Tokens array
		Logits         array
		GradientNorms  []float64 `json:"gradient_norms"`
	}
}

func readModelOracle(t *testing.T, file string) (o modelOracle) {
	t.Helper()
	text, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &o); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return o
}

// integers are an array's numbers.
func (a array) integers() []int32 {
	var out []int32
	for _, v := range a.numbers() {
		out = append(out, int32(v))
	}
	return out
}

// sequences builds a language model in one of its forms.
type sequences struct {
	file   string
	logits func(tokens, first *gorgonia.Node, caches []*nn.KVCache) *gorgonia.Node
	loss   func(tokens, labels *gorgonia.Node) *gorgonia.Node
}

var languageModels = []sequences{
	{"gpt.json", func(tokens, first *gorgonia.Node, caches []*nn.KVCache) *gorgonia.Node {
		cfg := oracleGPT
		cfg.First, cfg.Cache = first, caches
		return nn.GPT(tokens, cfg)
	}, func(tokens, labels *gorgonia.Node) *gorgonia.Node {
		return nn.GPTLoss(tokens, labels, oracleGPT, nn.CrossEntropyConfig{})
	}},
	{"llama.json", func(tokens, first *gorgonia.Node, caches []*nn.KVCache) *gorgonia.Node {
		cfg := oracleLlama
		cfg.First, cfg.Cache = first, caches
		return nn.Llama(tokens, cfg)
	}, func(tokens, labels *gorgonia.Node) *gorgonia.Node {
		return nn.LlamaLoss(tokens, labels, oracleLlama, nn.CrossEntropyConfig{})
	}},
}

var (
	oracleGPT   = nn.GPTConfig{Layers: 2, Heads: 4, Width: 32, Positions: 16, Vocabulary: 53}
	oracleLlama = nn.LlamaConfig{Layers: 2, Heads: 4, KVHeads: 2, Width: 32, Inner: 88, Vocabulary: 53}
)

// trainer is a compiled language model over batches of 4×16 tokens.
type trainer struct {
	*nn.Program
	logits *gorgonia.Node
	labels nn.LabelInput
	tokens nn.LabelInput
}

func newTrainer(t *testing.T, m sequences, o modelOracle, fused bool, cfg nn.Config) (tr trainer) {
	t.Helper()
	g := gorgonia.NewGraph()
	tokens, labels := nn.IDs(g, "tokens", 4, 16), nn.Labels(g, "labels", 4, 16)
	var loss *gorgonia.Node
	if fused {
		loss = m.loss(tokens, labels)
	} else {
		tr.logits = m.logits(tokens, nil, nil)
		loss = nn.SequenceCrossEntropy(tr.logits, labels, nn.CrossEntropyConfig{})
		cfg.Outputs = gorgonia.Nodes{tr.logits}
	}
	p, err := nn.Compile(loss, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	tr.Program = p
	setWeights(t, p, o)
	for name, to := range map[string]*nn.LabelInput{"tokens": &tr.tokens, "labels": &tr.labels} {
		if *to, err = p.Labels(name); err != nil {
			t.Fatal(err)
		}
	}
	return tr
}

// setWeights gives a program the oracle's weights, all of them.
func setWeights(t *testing.T, p *nn.Program, o modelOracle) {
	t.Helper()
	for _, q := range p.Params() {
		w, ok := o.Weights[q.Name]
		if !ok || !slices.Equal(w.Shape, q.Shape) {
			t.Fatalf("parameter %s %v: the oracle has the shape %v", q.Name, q.Shape, w.Shape)
		}
		for i, v := range w.numbers() {
			q.Value[i] = float32(v)
		}
	}
	if len(p.Params()) != len(o.Weights) {
		t.Fatalf("the model has %d parameters, the oracle %d", len(p.Params()), len(o.Weights))
	}
}

// set brings some examples of a batch.
func (tr *trainer) set(t *testing.T, batch map[string]array, first, n int) {
	t.Helper()
	tr.tokens.Set(batch["ids"].integers()[16*first : 16*(first+n)])
	tr.labels.Set(batch["labels"].integers()[16*first : 16*(first+n)])
	if err := tr.SetExamples(n); err != nil {
		t.Fatal(err)
	}
}

// forward compares the gradients with an oracle's first case: norms and probes.
func compareGradients(t *testing.T, what string, o modelOracle, gradient func(name string) []float64, tolerance float64) {
	t.Helper()
	c := o.Cases[0]
	largest := 0.0
	for _, g := range c.Gradients {
		largest = max(largest, g.Norm)
	}
	for name, want := range c.Gradients {
		squares, probe := 0.0, 0.0
		for i, v := range gradient(name) {
			squares += v * v
			probe += v * math.Cos(float64(i))
		}
		// A gradient that is nothing but rounding is compared with the largest one.
		scale := max(want.Norm, 1e-3*largest)
		if norm := math.Sqrt(squares); math.Abs(norm-want.Norm) > tolerance*scale || math.Abs(probe-want.Probe) > 10*tolerance*scale {
			t.Errorf("%s: gradient of %s has norm %.9g and probe %.9g, want %.9g and %.9g", what, name, norm, probe, want.Norm, want.Probe)
		}
	}
}

func widened(x []float32) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v)
	}
	return out
}

func (tr *trainer) gradient(name string) []float64 {
	for _, q := range tr.Params() {
		if q.Name == name {
			return widened(q.Gradient)
		}
	}
	return nil
}

func TestLanguageModelsComputeWhatPyTorchDoes(t *testing.T) {
	for _, m := range languageModels {
		o := readModelOracle(t, m.file)
		for _, fused := range []bool{false, true} {
			what := m.file
			if fused {
				what += " with the head in the loss"
			}
			tr := newTrainer(t, m, o, fused, nn.Config{Threads: 2})
			tr.set(t, o.Batches[0], 0, 4)
			step(t, tr.Program, nil)
			want := o.Cases[0].Outputs
			near(t, what+" loss", []float32{float32(tr.Loss())}, []float64{want.Loss}, 1e-6)
			compareGradients(t, what, o, tr.gradient, 1e-5)
			if !fused {
				logits, err := tr.Output(tr.logits)
				if err != nil {
					t.Fatal(err)
				}
				near(t, what+" logits", logits, want.Logits.numbers(), 1e-5)
			}
			// Two halves of the batch, with 29 and 32 labels.
			halves := o.Cases[1]
			for i, loss := range halves.Losses {
				tr.set(t, o.Batches[0], 2*i, 2)
				if err := tr.Forward(t.Context()); err != nil {
					t.Fatal(err)
				}
				near(t, what+" loss of a half", []float32{float32(tr.Loss())}, []float64{loss}, 1e-6)
				if got := tr.LossWeight(); got != halves.Labels[i] {
					t.Errorf("%s: half %d weighs %v, want its %v labels", what, i, got, halves.Labels[i])
				}
			}
		}
	}
}

// The plain loops give PyTorch's numbers in float64.
func TestLanguageModelsInFloat64(t *testing.T) {
	for _, m := range languageModels {
		o := readModelOracle(t, m.file)
		g := gorgonia.NewGraph()
		nn.Configure(g, nn.GraphConfig{Float64: true})
		r, err := ref.New(m.loss(nn.IDs(g, "tokens", 4, 16), nn.Labels(g, "labels", 4, 16)))
		if err != nil {
			t.Fatal(err)
		}
		for name, w := range o.Weights {
			if err := r.Set(name, w.numbers()); err != nil {
				t.Fatal(err)
			}
		}
		for name, in := range map[string]string{"tokens": "ids", "labels": "labels"} {
			if err := r.Set(name, o.Batches[0][in].numbers()); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.Step(); err != nil {
			t.Fatal(err)
		}
		if want := o.Cases[0].Outputs.Loss; math.Abs(r.Loss()-want) > 1e-7*want {
			t.Errorf("%s: the loss is %.9g, want %.9g", m.file, r.Loss(), want)
		}
		compareGradients(t, m.file, o, r.Grad, 1e-7)
		r.Close()
	}
}

// Ten steps of AdamW have PyTorch's losses and norms of gradients, to twice the distance between
// PyTorch's own float32 and float64, and for losses at least 1e-6.
func TestLanguageModelsTrainAsInPyTorch(t *testing.T) {
	for _, m := range languageModels {
		o := readModelOracle(t, m.file)
		for _, fused := range []bool{false, true} {
			tr := newTrainer(t, m, o, fused, nn.Config{Threads: 1})
			update, err := optim.New(optim.Config{Name: "adamw", LearningRate: 3e-3, Beta1: 0.9, Beta2: 0.95, Epsilon: 1e-8, WeightDecay: 0.1, WeightDecayFactors: noDecay(tr.Params())})
			if err != nil {
				t.Fatal(err)
			}
			states := make(map[string]*optim.State)
			training := o.Cases[3]
			for i, want := range training.Losses {
				tr.set(t, o.Batches[i], 0, 4)
				step(t, tr.Program, nil)
				most := max(2*math.Abs(training.LossesOfTorch[i]-want), 1e-6*want)
				if got := tr.Loss(); math.Abs(got-want) > most {
					t.Errorf("%s, head in the loss %t: loss %d is %.9g, want %.9g", m.file, fused, i, got, want)
				}
				squares := 0.0
				for _, q := range tr.Params() {
					for _, v := range q.Gradient {
						squares += float64(v) * float64(v)
					}
					if states[q.Name] == nil {
						states[q.Name] = update.NewState(len(q.Value))
					}
					if err := update.At(uint64(i), 1, update.Factors(q.Name)).Update(q.Value, q.Gradient, states[q.Name]); err != nil {
						t.Fatal(err)
					}
				}
				if norm, want := math.Sqrt(squares), training.GradientNorms[i]; math.Abs(norm-want) > 1e-5*want {
					t.Errorf("%s, head in the loss %t: norm %d is %.9g, want %.9g", m.file, fused, i, norm, want)
				}
			}
		}
	}
}

// noDecay are the factors of decay 0 for what has one dimension.
func noDecay(params []nn.Param) (list []optim.Factor) {
	for _, q := range params {
		if len(q.Shape) == 1 {
			list = append(list, optim.Factor{Keys: q.Name})
		}
	}
	return list
}

// Tokens are chosen one after the other with PyTorch's logits, keys and values in a cache: the
// prompt in one run of five positions, and each token in a run of one.
func TestLanguageModelsContinueAsInPyTorch(t *testing.T) {
	for _, m := range languageModels {
		o := readModelOracle(t, m.file)
		c := o.Cases[2]
		caches := []*nn.KVCache{nn.NewKVCache("cache.0", 16), nn.NewKVCache("cache.1", 16)}
		var programs []*nn.Program
		var outputs []*gorgonia.Node
		for _, length := range []int{5, 1} {
			g := gorgonia.NewGraph()
			logits := m.logits(nn.IDs(g, "tokens", 1, length), nn.IDs(g, "first", 1), caches)
			cfg := nn.Config{Inference: true, Threads: 1}
			if len(programs) > 0 {
				cfg.Share = programs[0]
			}
			p, err := nn.Compile(logits, cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			programs, outputs = append(programs, p), append(outputs, logits)
		}
		setWeights(t, programs[0], o)
		tokens, first := c.Prompt.integers(), 0
		run := func(k int) []float32 {
			for name, values := range map[string][]int32{"tokens": tokens, "first": {int32(first)}} {
				in, err := programs[k].Labels(name)
				if err != nil {
					t.Fatal(err)
				}
				in.Set(values)
			}
			if err := programs[k].Forward(t.Context()); err != nil {
				t.Fatal(err)
			}
			all, err := programs[k].Output(outputs[k])
			if err != nil {
				t.Fatal(err)
			}
			first += len(tokens)
			return all[len(all)-53:]
		}
		logits := run(0)
		for i, want := range c.Tokens.integers() {
			near(t, m.file+" logits", logits, c.Logits.numbers()[53*i:53*(i+1)], 1e-5)
			if got := slices.Index(logits, slices.Max(logits)); got != int(want) {
				t.Fatalf("%s: token %d is %d, want %d", m.file, i, got, want)
			}
			if tokens = []int32{want}; i < 7 {
				logits = run(1)
			}
		}
	}
}

func TestViTComputesWhatPyTorchDoes(t *testing.T) {
	o := readModelOracle(t, "vit.json")
	c := o.Cases[0]
	for threads := 1; threads <= 2; threads++ {
		g := gorgonia.NewGraph()
		images, labels := nn.Input(g, "images", 3, 3, 12, 12), nn.Labels(g, "labels", 3)
		logits := nn.ViT(images, nn.ViTConfig{Layers: 1, Heads: 3, Width: 24, Inner: 48, Patch: 4, Classes: 7})
		p, err := nn.Compile(nn.SoftmaxCrossEntropy(logits, labels), nn.Config{Threads: threads, Outputs: gorgonia.Nodes{logits}})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		setWeights(t, p, o)
		in, err := p.Input("images")
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range c.Inputs["images"].numbers() {
			in[i] = float32(v)
		}
		to, err := p.Labels("labels")
		if err != nil {
			t.Fatal(err)
		}
		to.Set(c.Inputs["labels"].integers())
		step(t, p, nil)
		near(t, "loss", []float32{float32(p.Loss())}, []float64{c.Outputs.Loss}, 1e-6)
		got, err := p.Output(logits)
		if err != nil {
			t.Fatal(err)
		}
		near(t, "logits", got, c.Outputs.Logits.numbers(), 1e-5)
		compareGradients(t, "vit.json", o, (&trainer{Program: p}).gradient, 1e-5)
	}
}

// Counts are those that were published.
func TestModelsHaveThePublishedNumberOfParameters(t *testing.T) {
	gpt2 := func(layers, heads, width int) nn.GPTConfig {
		return nn.GPTConfig{Layers: layers, Heads: heads, Width: width, Positions: 1024, Vocabulary: 50257}
	}
	ti := nn.ViTConfig{Layers: 12, Heads: 3, Width: 192, Patch: 16, Classes: 1000}
	for name, c := range map[string]struct{ got, want int }{
		"GPT-2":                {gpt2(12, 12, 768).Parameters(), 124_439_808},
		"GPT-2 medium":         {gpt2(24, 16, 1024).Parameters(), 354_823_168},
		"GPT-2 large":          {gpt2(36, 20, 1280).Parameters(), 774_030_080},
		"GPT-2 xl":             {gpt2(48, 25, 1600).Parameters(), 1_557_611_200},
		"nanoGPT's characters": {nn.GPTConfig{Layers: 6, Heads: 6, Width: 384, Positions: 256, Vocabulary: 65, NoBias: true}.Parameters(), 10_745_088},
		"bytes":                {nn.GPTConfig{Layers: 6, Heads: 6, Width: 384, Positions: 256, Vocabulary: 256}.Parameters(), 10_844_160},
		"Llama 2 7B":           {nn.LlamaConfig{Layers: 32, Heads: 32, Width: 4096, Inner: 11008, Vocabulary: 32000}.Parameters(), 6_738_415_616},
		"Llama 3 8B":           {nn.LlamaConfig{Layers: 32, Heads: 32, KVHeads: 8, Width: 4096, Inner: 14336, Vocabulary: 128256}.Parameters(), 8_030_261_248},
		"Llama 3.2 1B":         {nn.LlamaConfig{Layers: 16, Heads: 32, KVHeads: 8, Width: 2048, Inner: 8192, Vocabulary: 128256, Tied: true}.Parameters(), 1_235_814_400},
		"SmolLM2 135M":         {nn.LlamaConfig{Layers: 30, Heads: 9, KVHeads: 3, Width: 576, Inner: 1536, Vocabulary: 49152, Tied: true}.Parameters(), 134_515_008},
		"stories260K":          {nn.LlamaConfig{Layers: 5, Heads: 8, KVHeads: 4, Width: 64, Inner: 172, Vocabulary: 512, Tied: true}.Parameters(), 260_032},
		"ViT-Ti/16":            {ti.Parameters(3, 224, 224), 5_717_416},
		"ViT-S/16":             {nn.ViTConfig{Layers: 12, Heads: 6, Width: 384, Patch: 16, Classes: 1000}.Parameters(3, 224, 224), 22_050_664},
		"ViT-B/16":             {nn.ViTConfig{Layers: 12, Heads: 12, Width: 768, Patch: 16, Classes: 1000}.Parameters(3, 224, 224), 86_567_656},
		"ViT-Ti/4":             {nn.ViTConfig{Layers: 12, Heads: 3, Width: 192, Patch: 4, Classes: 10}.Parameters(3, 32, 32), 5_362_762},
	} {
		if c.got != c.want {
			t.Errorf("%s has %d parameters, want %d", name, c.got, c.want)
		}
	}
}

// The formulas count what the graphs have.
func TestParametersCountsTheGraphs(t *testing.T) {
	for _, bias := range []bool{false, true} {
		g := gorgonia.NewGraph()
		cfg := nn.GPTConfig{Layers: 2, Heads: 2, Width: 8, Positions: 5, Vocabulary: 7, NoBias: !bias, Dropout: 0.1}
		nn.GPT(nn.IDs(g, "tokens", 2, 3), cfg)
		if got, want := cfg.Parameters(), nn.ParameterCount(g); got != want {
			t.Errorf("GPT with biases %t: %d, want %d", bias, got, want)
		}
	}
	for _, tied := range []bool{false, true} {
		g := gorgonia.NewGraph()
		cfg := nn.LlamaConfig{Layers: 2, Heads: 4, KVHeads: 2, Width: 12, HeadSize: 4, Inner: 9, Vocabulary: 7, Tied: tied}
		nn.Llama(nn.IDs(g, "tokens", 2, 3), cfg)
		if got, want := cfg.Parameters(), nn.ParameterCount(g); got != want {
			t.Errorf("Llama, tied %t: %d, want %d", tied, got, want)
		}
	}
	g := gorgonia.NewGraph()
	cfg := nn.ViTConfig{Layers: 2, Heads: 2, Width: 8, Inner: 12, Patch: 2, Classes: 3, Dropout: 0.1}
	nn.ViT(nn.Input(g, "images", 2, 3, 4, 6), cfg)
	if got, want := cfg.Parameters(3, 4, 6), nn.ParameterCount(g); got != want {
		t.Errorf("ViT: %d, want %d", got, want)
	}
}

// Weights start as those of GPT-2 do, so that the first loss is near ln V.
func TestGPTStartsAsPublished(t *testing.T) {
	g := gorgonia.NewGraph()
	nn.GPT(nn.IDs(g, "tokens", 1, 8), nn.GPTConfig{Layers: 8, Heads: 2, Width: 64, Positions: 64, Vocabulary: 256})
	for _, n := range nn.Parameters(g) {
		values := n.Value().Data().([]float32)
		sum, squares := 0.0, 0.0
		for _, v := range values {
			sum += float64(v)
			squares += float64(v) * float64(v)
		}
		deviation := math.Sqrt(squares / float64(len(values)))
		want := 0.02
		switch name := n.Name(); {
		case strings.HasSuffix(name, ".bias"):
			want = 0
		case strings.Contains(name, ".ln_"):
			want = 1
		case strings.HasSuffix(name, ".c_proj.weight"):
			want = 0.02 / 4
		}
		if math.Abs(deviation-want) > 0.05*want {
			t.Errorf("%s: root mean square %v, want %v", n.Name(), deviation, want)
		}
	}
}

func TestModelsOfSequencesRefuseByName(t *testing.T) {
	g := gorgonia.NewGraph()
	tokens, images := nn.IDs(g, "tokens", 2, 9), nn.Input(g, "images", 2, 3, 12, 10)
	gpt, llama, vit := oracleGPT, oracleLlama, nn.ViTConfig{Layers: 1, Heads: 3, Width: 24, Patch: 4, Classes: 7}
	for want, do := range map[string]func(){
		"the width is 32 and there are 5 heads":                           func() { c := gpt; c.Heads = 5; nn.GPT(tokens, c) },
		"sequences of 9 from position 0 on, want at most the 8 positions": func() { c := gpt; c.Positions = 8; nn.GPT(tokens, c) },
		"4 heads over 3 of keys and values":                               func() { c := llama; c.KVHeads = 3; nn.Llama(tokens, c) },
		"want at most the 8 positions that there are":                     func() { c := llama; c.Positions = 8; nn.Llama(tokens, c) },
		"patches 4×4, want patches that divide height and width":          func() { nn.ViT(images, vit) },
	} {
		message := ""
		func() {
			defer func() { message, _ = recover().(string) }()
			do()
		}()
		if !strings.Contains(message, want) {
			t.Errorf("got %q, want it to say %q", message, want)
		}
		g = gorgonia.NewGraph()
		tokens, images = nn.IDs(g, "tokens", 2, 9), nn.Input(g, "images", 2, 3, 12, 10)
	}
}

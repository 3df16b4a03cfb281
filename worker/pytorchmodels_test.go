package worker_test

import (
	"context"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/paragon-train/paragon/checkpoint"
	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/worker"
	"gorgonia.org/gorgonia"
)

// Models of transformers and torchvision with random weights have the same logits here, from files in
// all the ways in which they are written, and there once more when they have been changed here and
// exported.
func TestModelsAreThoseOfPyTorch(t *testing.T) {
	python := os.Getenv("PARAGON_TEST_TRANSFORMERS")
	if python == "" {
		t.Skip("PARAGON_TEST_TRANSFORMERS is not set: the path of a Python with torch, torchvision and transformers")
	}
	at := t.TempDir()
	run(t, python, "write", at)
	ran := map[string]bool{}
	for _, c := range pytorchCases {
		t.Run(c.name, func(t *testing.T) { c.check(t, filepath.Join(at, c.name)) })
		ran[c.name] = true
	}
	folders, err := os.ReadDir(at)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range folders {
		if !ran[f.Name()] {
			t.Errorf("no case reads the model %s", f.Name())
		}
	}
	run(t, python, "read", at)
	for _, c := range pytorchCases {
		if c.export == "" {
			continue
		}
		folder := filepath.Join(at, c.name)
		there, here := floats(t, filepath.Join(folder, "back.safetensors"), "logits"), floats(t, filepath.Join(folder, "changed.safetensors"), "logits")
		nearLogits(t, c.name+", exported", here, there)
	}
}

func run(t *testing.T, python, mode, at string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, python, "testdata/models.py", mode, at)
	cmd.Env = append(os.Environ(), "HF_HUB_OFFLINE=1", "PYTHONWARNINGS=ignore")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("models.py %s: %v\n%s", mode, err, out)
	}
}

// A pytorchCase is a model in one kind of files.
type pytorchCase struct {
	name string
	// model builds the graph's logits as the folder describes it, and returns what writes its
	// config.json into another; nil: it has none.
	model func(t *testing.T, in *gorgonia.Node, folder string) (logits *gorgonia.Node, write func(to string) error)
	// export is the format of an export that PyTorch is to load; "": none.
	export string
}

var pytorchCases = []pytorchCase{
	{"gpt2", gptOf, "hf"}, {"gpt2-trunk", gptOf, ""}, {"gpt2-sharded", gptOf, ""}, {"gpt2-nanogpt", gptOf, ""}, {"gpt2-bfloat16", gptOf, "hf"},
	{"llama", llamaOf, "hf"}, {"llama-meta", llamaOf, ""}, {"llama-tied", llamaOf, "hf"},
	{"vit-hf", vitOf, "hf"}, {"vit-torchvision", vitFixed, "torchvision"}, {"vit-timm", vitFixed, ""},
	{"resnet18", resnetOf(nn.ResNet18), "own"}, {"resnet50", resnetOf(nn.ResNet50), "own"}, {"mobilenet_v2", mobileNetOf, "own"},
}

func gptOf(t *testing.T, in *gorgonia.Node, folder string) (*gorgonia.Node, func(string) error) {
	cfg, err := worker.GPTConfig(t.Context(), folder)
	if err != nil {
		t.Fatal(err)
	}
	return nn.GPT(in, cfg), func(to string) error { return worker.WriteGPTConfig(t.Context(), to, cfg) }
}

func llamaOf(t *testing.T, in *gorgonia.Node, folder string) (*gorgonia.Node, func(string) error) {
	cfg, err := worker.LlamaConfig(t.Context(), folder)
	if err != nil {
		t.Fatal(err)
	}
	return nn.Llama(in, cfg), func(to string) error { return worker.WriteLlamaConfig(t.Context(), to, cfg) }
}

func vitOf(t *testing.T, in *gorgonia.Node, folder string) (*gorgonia.Node, func(string) error) {
	cfg, image, err := worker.ViTConfig(t.Context(), folder)
	if err != nil {
		t.Fatal(err)
	}
	return nn.ViT(in, cfg), func(to string) error { return worker.WriteViTConfig(t.Context(), to, cfg, 3, image) }
}

func vitFixed(_ *testing.T, in *gorgonia.Node, _ string) (*gorgonia.Node, func(string) error) {
	return nn.ViT(in, nn.ViTConfig{Layers: 2, Heads: 3, Width: 24, Patch: 4, Classes: 5}), nil
}

func resnetOf(build func(*gorgonia.Node, nn.ResNetConfig) *gorgonia.Node) func(*testing.T, *gorgonia.Node, string) (*gorgonia.Node, func(string) error) {
	return func(_ *testing.T, in *gorgonia.Node, _ string) (*gorgonia.Node, func(string) error) {
		return build(in, nn.ResNetConfig{Classes: 5}), nil
	}
}

func mobileNetOf(_ *testing.T, in *gorgonia.Node, _ string) (*gorgonia.Node, func(string) error) {
	return nn.MobileNetV2(in, nn.MobileNetV2Config{Classes: 5}), nil
}

// check compares the logits of an import with PyTorch's, changes the weights, keeps the logits that
// they give, and exports them.
func (c *pytorchCase) check(t *testing.T, folder string) {
	g := gorgonia.NewGraph()
	oracle := filepath.Join(folder, "oracle.safetensors")
	f, err := checkpoint.Open(oracle)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Tensor("inputs")
	if err != nil {
		t.Fatal(err)
	}
	var in *gorgonia.Node
	if info.DType == checkpoint.I64 {
		in = nn.IDs(g, "in", info.Shape...)
	} else {
		in = nn.Input(g, "in", info.Shape...)
	}
	logits, writeConfig := c.model(t, in, folder)
	p, err := nn.Compile(logits, nn.Config{Inference: true, Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	setInputs(t, p, f, info)
	from := folder
	if c.export == "own" || strings.HasPrefix(c.name, "vit-t") {
		from = filepath.Join(folder, "model.safetensors")
	}
	unused, err := worker.ImportModel(t.Context(), p, from)
	if err != nil || len(unused) > 0 {
		t.Fatalf("import: %v, unused %q", err, unused)
	}
	nearLogits(t, "imported", forward(t, p, logits), floats(t, oracle, "logits"))
	if c.export == "" {
		return
	}
	changed := change(p)
	if err := checkpoint.Save(filepath.Join(folder, "changed.safetensors"), nil,
		[]checkpoint.Tensor{checkpoint.Float32s("logits", logits.Shape(), forward(t, p, logits))}); err != nil {
		t.Fatal(err)
	}
	own := t.TempDir()
	saved, to := filepath.Join(own, "saved.safetensors"), filepath.Join(folder, "exported")
	if err := checkpoint.Save(saved, nil, changed); err != nil {
		t.Fatal(err)
	}
	cfg := checkpoint.ExportConfig{Format: c.export}
	switch {
	case c.export == "own":
		cfg.Format = ""
		to += ".safetensors"
	case writeConfig == nil:
		to += ".safetensors"
	default:
		if err := writeConfig(own); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := checkpoint.ExportAs(t.Context(), saved, to, cfg); err != nil {
		t.Fatal(err)
	}
}

// setInputs gives a program the oracle's tokens or images.
func setInputs(t *testing.T, p *nn.Program, f *checkpoint.File, info checkpoint.Info) {
	t.Helper()
	if info.DType == checkpoint.I64 {
		wide := make([]int64, info.Bytes/8)
		if err := f.ReadInt64s("inputs", wide); err != nil {
			t.Fatal(err)
		}
		tokens := make([]int32, len(wide))
		for i, v := range wide {
			tokens[i] = int32(v)
		}
		ids, err := p.IDs("in")
		if err != nil {
			t.Fatal(err)
		}
		ids.Set(tokens)
		return
	}
	x, err := p.Input("in")
	if err != nil {
		t.Fatal(err)
	}
	if err := f.ReadFloat32s("inputs", x); err != nil {
		t.Fatal(err)
	}
}

func forward(t *testing.T, p *nn.Program, logits *gorgonia.Node) []float32 {
	t.Helper()
	if err := p.Forward(t.Context()); err != nil {
		t.Fatal(err)
	}
	out, err := p.Output(logits)
	if err != nil {
		t.Fatal(err)
	}
	return append([]float32(nil), out...)
}

// change multiplies each value by a factor of its own, and returns all of a program's model.
func change(p *nn.Program) (all []checkpoint.Tensor) {
	i := 0
	for _, list := range [][]nn.Param{p.Params(), p.State()} {
		for _, q := range list {
			for j := range q.Value {
				q.Value[j] *= 1 + 0.2*float32(math.Sin(float64(i)))
				i++
			}
			all = append(all, checkpoint.Float32s(q.Name, q.Shape, q.Value))
			if layer, ok := strings.CutSuffix(q.Name, ".running_mean"); ok {
				all = append(all, checkpoint.Float32s(layer+".num_batches_tracked", nil, []float32{3}))
			}
		}
	}
	return all
}

// floats reads a tensor of a file.
func floats(t *testing.T, path, name string) []float32 {
	t.Helper()
	f, err := checkpoint.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Tensor(name)
	if err != nil {
		t.Fatal(err)
	}
	values := make([]float32, info.Bytes/4)
	if err := f.ReadFloat32s(name, values); err != nil {
		t.Fatal(err)
	}
	return values
}

// nearLogits compares logits within 1e-4 of the largest.
func nearLogits(t *testing.T, what string, got, want []float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: got %d logits, want %d", what, len(got), len(want))
	}
	largest, apart := 0.0, 0.0
	for i := range want {
		largest, apart = max(largest, math.Abs(float64(want[i]))), max(apart, math.Abs(float64(got[i])-float64(want[i])))
	}
	t.Logf("%s: apart by %.2g of %.3g", what, apart, largest)
	if !(apart <= 1e-4*largest) || largest == 0 {
		t.Errorf("%s: logits are apart by %g, want at most 1e-4 of the largest, %g", what, apart, largest)
	}
}

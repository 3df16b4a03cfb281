package nn_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/nn"
	"gorgonia.org/gorgonia"
)

// recomputed has models whose branches normalise rows and have activations.
var recomputed = map[string]func(g *gorgonia.ExprGraph) (loss *gorgonia.Node){
	"GPT": func(g *gorgonia.ExprGraph) *gorgonia.Node {
		cfg := nn.GPTConfig{Layers: 4, Heads: 2, Width: 32, Positions: 16, Vocabulary: 20, Dropout: 0.2}
		return nn.GPTLoss(nn.IDs(g, "tokens", 4, 16), nn.Labels(g, "labels", 4, 16), cfg, nn.CrossEntropyConfig{})
	},
	"Llama": func(g *gorgonia.ExprGraph) *gorgonia.Node {
		cfg := nn.LlamaConfig{Layers: 4, Heads: 2, KVHeads: 1, Width: 32, Inner: 64, Vocabulary: 20, Positions: 16}
		return nn.SequenceCrossEntropy(nn.Llama(nn.IDs(g, "tokens", 4, 16), cfg), nn.Labels(g, "labels", 4, 16), nn.CrossEntropyConfig{})
	},
	"ViT": func(g *gorgonia.ExprGraph) *gorgonia.Node {
		cfg := nn.ViTConfig{Layers: 4, Heads: 2, Width: 32, Patch: 4, Classes: 5}
		return nn.CrossEntropy(nn.ViT(nn.Input(g, "images", 4, 3, 16, 16), cfg), nn.Labels(g, "labels", 4), nn.CrossEntropyConfig{})
	},
}

// What is computed again is the same, to the bit, and takes less memory than what is kept.
func TestRecomputeTakesLessMemoryAndGivesTheSameGradients(t *testing.T) {
	for name, model := range recomputed {
		for _, dtype := range []nn.DType{nn.Float32, nn.BFloat16} {
			var arenas [2]int64
			var gradients [2][]float32
			var losses [2]float64
			for i, recompute := range []bool{false, true} {
				g := gorgonia.NewGraph()
				nn.Configure(g, nn.GraphConfig{Seed: 3})
				p, err := nn.Compile(model(g), nn.Config{Threads: 2, DType: dtype, Recompute: recompute})
				if err != nil {
					t.Fatal(err)
				}
				defer p.Close()
				fillRecomputed(t, p, name)
				// The second step finds what the first one left.
				step(t, p, nil)
				step(t, p, nil)
				losses[i], arenas[i] = p.Loss(), p.Memory().Arena
				for _, q := range p.Params() {
					gradients[i] = append(gradients[i], q.Gradient...)
				}
			}
			if losses[0] != losses[1] || !slices.Equal(gradients[0], gradients[1]) {
				t.Errorf("%s, %v: losses are %v, and gradients not the same", name, dtype, losses)
			}
			if arenas[1] > arenas[0]*9/10 {
				t.Errorf("%s, %v: the arena has %d bytes, and %d without Recompute, want a tenth less", name, dtype, arenas[1], arenas[0])
			}
		}
	}
	err := (&nn.Config{Device: "cuda:0", Recompute: true}).Validate()
	if err == nil || !strings.Contains(err.Error(), "Recompute") {
		t.Errorf("on a GPU: got error %v, want one that names Recompute", err)
	}
}

// fillRecomputed sets a model's inputs.
func fillRecomputed(t *testing.T, p *nn.Program, name string) {
	t.Helper()
	integers, images := []string{"labels"}, name == "ViT"
	if !images {
		integers = append(integers, "tokens")
	}
	for _, input := range integers {
		in, err := p.Labels(input)
		if err != nil {
			t.Fatal(err)
		}
		values := make([]int32, in.Len())
		for k := range values {
			values[k] = int32(k * 7 % 5)
		}
		in.Set(values)
	}
	if !images {
		return
	}
	in, err := p.Input("images")
	if err != nil {
		t.Fatal(err)
	}
	for k := range in {
		in[k] = float32(k%17)/8 - 1
	}
}

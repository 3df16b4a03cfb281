package nn_test

import (
	"context"
	"fmt"
	"os"
	"sort"
	"testing"

	"github.com/paragon-train/paragon/nn"
	"gorgonia.org/gorgonia"
)

// A step of GPTs, forward and backward, on random tokens; with PARAGON_PROFILE=1 the time of its ops.
// Run it with
//
//	go test ./nn -run '^$' -bench GPTStep -cpu 2
func BenchmarkGPTStep(b *testing.B) {
	for _, c := range []struct {
		name          string
		cfg           nn.GPTConfig
		batch, length int
	}{
		{"10.8M", nn.GPTConfig{Layers: 6, Heads: 6, Width: 384, Positions: 256, Vocabulary: 256, Activation: "none"}, 16, 256},
		{"124M", nn.GPTConfig{Layers: 12, Heads: 12, Width: 768, Positions: 1024, Vocabulary: 50257}, 4, 64},
		{"0.8M", nn.GPTConfig{Layers: 4, Heads: 4, Width: 128, Positions: 64, Vocabulary: 256, Activation: "none"}, 12, 64},
	} {
		for _, dtype := range []nn.DType{nn.Float32, nn.BFloat16} {
			b.Run(fmt.Sprintf("model=%s/batch=%d/T=%d/dtype=%v", c.name, c.batch, c.length, dtype), func(b *testing.B) {
				g := gorgonia.NewGraph()
				loss := nn.GPTLoss(nn.IDs(g, "tokens", c.batch, c.length), nn.Labels(g, "labels", c.batch, c.length), c.cfg, nn.CrossEntropyConfig{})
				p, err := nn.Compile(loss, nn.Config{DType: dtype})
				if err != nil {
					b.Fatal(err)
				}
				defer p.Close()
				for i, name := range []string{"tokens", "labels"} {
					in, err := p.Labels(name)
					if err != nil {
						b.Fatal(err)
					}
					values := make([]int32, in.Len())
					for k := range values {
						values[k] = int32((k + i) * 7919 % c.cfg.Vocabulary)
					}
					in.Set(values)
				}
				if os.Getenv("PARAGON_PROFILE") != "" {
					profile(b, p)
				}
				for b.Loop() {
					step(b, p, nil)
				}
				b.ReportMetric(float64(c.batch*c.length)*float64(b.N)/b.Elapsed().Seconds(), "tokens/s")
			})
		}
	}
}

// profile logs the time of ops by kind.
func profile(b *testing.B, p *nn.Program) {
	times, err := p.Profile(context.Background(), 3)
	if err != nil {
		b.Fatal(err)
	}
	byKind, total := make(map[string]float64), 0.0
	for _, t := range times {
		byKind[t.Kind] += t.Time.Seconds()
		total += t.Time.Seconds()
	}
	var kinds []string
	for k := range byKind {
		kinds = append(kinds, k)
	}
	sort.Slice(kinds, func(i, j int) bool { return byKind[kinds[i]] > byKind[kinds[j]] })
	for _, k := range kinds {
		b.Logf("%-24s %8.2f ms %5.1f %%", k, 1e3*byKind[k], 100*byKind[k]/total)
	}
	b.Logf("%-24s %8.2f ms; memory %v", "all", 1e3*total, p.Memory())
}

// A step of ViT-Ti with patches of 4 on images of 32×32, forward and backward; see BenchmarkGPTStep.
func BenchmarkViTStep(b *testing.B) {
	const batch = 64
	for _, dtype := range []nn.DType{nn.Float32, nn.BFloat16} {
		b.Run(fmt.Sprintf("batch=%d/dtype=%v", batch, dtype), func(b *testing.B) {
			loss, p := compile(b, model{"vit", 10, func(g *gorgonia.ExprGraph) *gorgonia.Node {
				images := nn.Input(g, "images", batch, 3, 32, 32)
				logits := nn.ViT(images, nn.ViTConfig{Layers: 12, Heads: 3, Width: 192, Patch: 4, Classes: 10})
				return nn.SoftmaxCrossEntropy(logits, nn.Labels(g, "labels", batch))
			}}, nn.Config{DType: dtype})
			fillInputs(b, loss.Graph(), p, nil, 10, 1)
			if os.Getenv("PARAGON_PROFILE") != "" {
				profile(b, p)
			}
			for b.Loop() {
				step(b, p, nil)
			}
			b.ReportMetric(float64(batch)*float64(b.N)/b.Elapsed().Seconds(), "images/s")
		})
	}
}

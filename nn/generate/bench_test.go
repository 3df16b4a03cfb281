package generate_test

import (
	"testing"

	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/nn/generate"
	"gorgonia.org/gorgonia"
)

// Tokens of GPT-2 of 124 million parameters, with made-up weights, behind 64 others; MB/s are those of
// its parameters, which each token reads.
//
//	go test ./nn/generate -run '^$' -bench Decoder -cpu 2
func BenchmarkDecoder(b *testing.B) {
	cfg := nn.GPTConfig{Layers: 12, Heads: 12, Width: 768, Positions: 1024, Vocabulary: 50257}
	g := gorgonia.NewGraph()
	p, err := nn.Compile(nn.GPT(nn.IDs(g, "tokens", 1, 1), cfg), nn.Config{Inference: true})
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	d, err := generate.NewDecoder(generate.DecoderConfig{Share: p, Layers: cfg.Layers, Positions: cfg.Positions,
		Build: func(tokens, first *gorgonia.Node, caches []*nn.KVCache) *gorgonia.Node {
			c := cfg
			c.First, c.Cache = first, caches
			return nn.GPT(tokens, c)
		}})
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	if _, err := d.Add(b.Context(), make([]int32, 64)...); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(4 * int64(cfg.Parameters()))
	for b.Loop() {
		if d.Length() >= cfg.Positions {
			d.Reset()
		}
		if _, err := d.Add(b.Context(), 1); err != nil {
			b.Fatal(err)
		}
	}
}

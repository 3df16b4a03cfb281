package nn_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/paragon-train/paragon/nn"
	"gorgonia.org/gorgonia"
)

// BenchmarkRows has the shortest time, in milliseconds, of each kind of op over rows and shapes, in
// the sizes of a model of 10 M parameters: 4096 rows of 384 numbers, which are 6.3 MB. Where a kind
// is there several times it is the sum of them. With PARAGON_BENCH_OPS each op is printed.
//
//	go test ./nn -bench Rows -run '^$'
func BenchmarkRows(b *testing.B) {
	loss := func(y *gorgonia.Node) *gorgonia.Node { return nn.MSE(y, nn.Input(y.Graph(), "target", y.Shape()...)) }
	cases := []struct {
		name  string
		build func(g *gorgonia.ExprGraph) *gorgonia.Node
	}{
		{"norms", func(g *gorgonia.ExprGraph) *gorgonia.Node {
			x := nn.Add(nn.Input(g, "x", 16, 256, 384), weight(g, "positions", 256, 384))
			y := nn.LayerNorm(x, "ln1", nn.LayerNormConfig{})
			x = nn.Add(x, nn.ReLU(y))
			y = nn.RMSNorm(x, "ln2", nn.RMSNormConfig{})
			return loss(nn.Add(x, nn.ReLU(y)))
		}},
		{"groups", func(g *gorgonia.ExprGraph) *gorgonia.Node {
			x := nn.Conv2D(nn.Input(g, "x", 64, 8, 32, 32), "conv", nn.Conv2DConfig{Filters: 64, Kernel: nn.Square(1)})
			return loss(nn.GroupNorm(x, "gn", nn.GroupNormConfig{Groups: 8}))
		}},
		{"products", func(g *gorgonia.ExprGraph) *gorgonia.Node {
			x := nn.Mul(nn.Input(g, "x", 16, 256, 1152), weight(g, "scale", 1152))
			qkv := nn.Split(x, -1, 384, 384, 384)
			for i, y := range qkv {
				qkv[i] = nn.Permute(nn.Reshape(y, 16, 256, 6, 64), 0, 2, 1, 3)
			}
			y := nn.MatMul(nn.MatMul(qkv[0], qkv[1], nn.MatMulConfig{TransB: true}), qkv[2], nn.MatMulConfig{})
			return loss(nn.Permute(y, 0, 1, 3, 2))
		}},
	}
	for _, c := range cases {
		b.Run(c.name, func(b *testing.B) {
			l, p := compile(b, model{c.name, 2, c.build}, nn.Config{Threads: 2})
			fillInputs(b, l.Graph(), p, nil, 2, 1)
			times := make(map[string]time.Duration)
			for range b.N {
				ops, err := p.Profile(b.Context(), 10)
				if err != nil {
					b.Fatal(err)
				}
				clear(times)
				for _, o := range ops {
					times[o.Kind] += o.Time
					if os.Getenv("PARAGON_BENCH_OPS") != "" {
						fmt.Printf("%8.3f ms %s\n", o.Time.Seconds()*1e3, o.Op)
					}
				}
			}
			for kind, d := range times {
				b.ReportMetric(d.Seconds()*1e3, kind+"-ms")
			}
		})
	}
}

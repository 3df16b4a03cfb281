package nn_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/paragon-train/paragon/nn"
	"gorgonia.org/gorgonia"
)

// tenClasses is a classifier of images with ten classes.
func tenClasses(name string, batch int, shape []int, net func(x *gorgonia.Node) *gorgonia.Node) model {
	return model{name, 10, func(g *gorgonia.ExprGraph) *gorgonia.Node {
		x := nn.Input(g, "x", append([]int{batch}, shape...)...)
		return nn.SoftmaxCrossEntropy(net(x), nn.Labels(g, "labels", batch))
	}}
}

// BenchmarkStep is a training step, forward and backward without the update, on random data.
// Compare with
//
//	go test ./nn -bench Step/model=resnet18-imagenet/batch=64/threads=2 -run '^$' -count 10
func BenchmarkStep(b *testing.B) {
	resnet := func(stem nn.Stem) func(x *gorgonia.Node) *gorgonia.Node {
		return func(x *gorgonia.Node) *gorgonia.Node {
			return nn.ResNet18(x, nn.ResNetConfig{Classes: 10, Stem: stem})
		}
	}
	nets := []struct {
		name  string
		shape []int
		net   func(x *gorgonia.Node) *gorgonia.Node
	}{
		{"resnet18-imagenet", []int{3, 32, 32}, resnet(nn.ImageNet)},
		{"resnet18-cifar", []int{3, 32, 32}, resnet(nn.CIFAR)},
		{"mlp", []int{784}, func(x *gorgonia.Node) *gorgonia.Node {
			return nn.MLP(x, nn.MLPConfig{Hidden: []int{512, 512}, Classes: 10})
		}},
	}
	for _, n := range nets {
		for _, batch := range []int{64, 128} {
			for _, threads := range []int{1, 2} {
				for _, dtype := range []nn.DType{nn.Float32, nn.BFloat16} {
					b.Run(fmt.Sprintf("model=%s/batch=%d/threads=%d/dtype=%v", n.name, batch, threads, dtype), func(b *testing.B) {
						benchmarkStep(b, tenClasses(n.name, batch, n.shape, n.net), batch, nn.Config{Threads: threads, DType: dtype})
					})
				}
			}
		}
	}
}

// A short batch computes all rows, and copies its padding's inputs besides. A whole one copies
// nothing.
//
//	go test -run '^$' -bench ShortBatch -cpu 1 ./nn
func BenchmarkShortBatch(b *testing.B) {
	m := tenClasses("mlp", 64, []int{3, 32, 32}, func(x *gorgonia.Node) *gorgonia.Node {
		return nn.MLP(nn.Flatten(x), nn.MLPConfig{Hidden: []int{256}, Classes: 10})
	})
	loss, p := compile(b, m, nn.Config{Threads: 1})
	fillInputs(b, loss.Graph(), p, nil, 10, 1)
	for _, n := range []int{64, 63, 32, 1} {
		b.Run(fmt.Sprintf("examples=%d", n), func(b *testing.B) {
			if err := p.SetExamples(n); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if err := p.Step(b.Context(), nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func benchmarkStep(b *testing.B, m model, batch int, cfg nn.Config) {
	loss, p := compile(b, m, cfg)
	fillInputs(b, loss.Graph(), p, nil, 10, 1)
	ctx := context.Background()
	if err := p.Step(ctx, nil); err != nil { // touches the memory
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := p.Step(ctx, nil); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(batch*b.N)/b.Elapsed().Seconds(), "images/s")
	b.ReportMetric(float64(p.Memory().Total())/1e6, "MB")
}

package nn_test

import (
	"fmt"
	"testing"

	"github.com/paragon-train/paragon/nn"
	"gorgonia.org/gorgonia"
)

// benchResNet18 is ResNet18 for images of CIFAR-10.
func benchResNet18(stem nn.Stem, batch int) model {
	return tenClasses("resnet18", batch, []int{3, 32, 32}, func(x *gorgonia.Node) *gorgonia.Node {
		return nn.ResNet18(x, nn.ResNetConfig{Classes: 10, Stem: stem})
	})
}

// BenchmarkStepSharing is a step with 64 images of a program that is alone, and of one that shares
// with a program for 256:
//
//	go test ./nn -bench StepSharing -run '^$' -count 10
func BenchmarkStepSharing(b *testing.B) {
	for _, other := range []int{0, 256} {
		b.Run(fmt.Sprintf("with=%d", other), func(b *testing.B) {
			cfg := nn.Config{Threads: 1}
			if other > 0 {
				_, cfg.Share = compile(b, benchResNet18(nn.ImageNet, other), cfg)
			}
			benchmarkStep(b, benchResNet18(nn.ImageNet, 64), 64, cfg)
		})
	}
}

// BenchmarkCompileSharing makes graphs of ResNet18 with the CIFAR stem and compiles them, alone or
// as further programs of one for 512 images. MB is what a program takes in addition:
//
//	go test ./nn -bench CompileSharing -run '^$' -benchtime 3x
func BenchmarkCompileSharing(b *testing.B) {
	for _, sharing := range []bool{false, true} {
		for _, batch := range []int{64, 128, 256, 512} {
			b.Run(fmt.Sprintf("sharing=%t/batch=%d", sharing, batch), func(b *testing.B) {
				cfg := nn.Config{Threads: 1}
				if sharing {
					_, cfg.Share = compile(b, benchResNet18(nn.CIFAR, 512), cfg)
				}
				mb := 0.0
				for b.Loop() {
					g := gorgonia.NewGraph()
					p, err := nn.Compile(benchResNet18(nn.CIFAR, batch).build(g), cfg)
					if err != nil {
						b.Fatal(err)
					}
					mb = float64(p.Memory().Total()) / 1e6
					p.Close()
				}
				b.ReportMetric(mb, "MB")
			})
		}
	}
}

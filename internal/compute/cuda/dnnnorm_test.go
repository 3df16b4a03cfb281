package cuda_test

import (
	"fmt"
	"log/slog"
	"math"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/compute/cuda"
	"github.com/paragon-train/paragon/internal/compute/cuda/fake"
	"github.com/paragon-train/paragon/internal/compute/plan"
	"github.com/paragon-train/paragon/nn"
	"gorgonia.org/gorgonia"
)

// Steps whose normalisations are the library's are those of the reference: with and without what is
// added, ReLU and its mask, where results may lie over arguments, and where the library takes some
// and our kernels the rest.
func TestStepsWithTheLibrarysNormalisationsEqualTheReference(t *testing.T) {
	wide := classifier("wide", 4, []int{3, 4, 4}, func(x *gorgonia.Node) *gorgonia.Node {
		x = nn.BatchNorm2D(conv(x, "conv0", 8, 3, 1, 1), "bn0", nn.BatchNormConfig{}) // alone
		x = nn.ReLU(nn.BatchNorm2D(conv(x, "conv1", 8, 3, 1, 1), "bn1", nn.BatchNormConfig{}))
		y := nn.BatchNorm2D(conv(x, "conv2", 8, 3, 1, 1), "bn2", nn.BatchNormConfig{})
		x = nn.ReLU(nn.Add(y, x))
		y = nn.ReLU(nn.BatchNorm2D(conv(x, "conv3", 12, 3, 2, 1), "bn3", nn.BatchNormConfig{})) // no multiple of 8
		z := nn.BatchNorm2D(conv(x, "down", 16, 1, 2, 0), "bn4", nn.BatchNormConfig{})
		return end(nn.ReLU(nn.Add(nn.BatchNorm2D(conv(y, "conv4", 16, 3, 1, 1), "bn5", nn.BatchNormConfig{}), z)))
	})
	for _, c := range []struct {
		typ            cuda.Compute
		loss, gradient float64
	}{{cuda.Float32, 1e-5, 2e-5}, {cuda.BFloat16, 1e-2, 0.15}, {cuda.Float16, 2e-3, 2e-2}} {
		// The library's kernels are taken wherever it has one, and then what is faster.
		for _, repeat := range []int{-1, 1} {
			if repeat > 0 && c.typ != cuda.BFloat16 && !slow() {
				// The comparison is the same for each type.
				continue
			}
			t.Run(fmt.Sprintf("%v/%d", c.typ, repeat), func(t *testing.T) {
				machine := fake.New(t)
				machine.Set("seed", 3)
				var log strings.Builder
				gpu, err := cuda.Open(0, cuda.Options{Search: *machine.Search(), Choices: "none", Repeat: repeat, Norms: true,
					Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() {
					if err := gpu.Close(); err != nil {
						t.Error(err)
					}
				})
				p, r := compile(t, wide, cuda.Config{GPU: gpu, Type: c.typ, Bucket: 2048}), reference(t, wide)
				ours := compile(t, wide, cuda.Config{GPU: openAll(t, machine, 1)[0], Type: c.typ, Bucket: 2048})
				for _, o := range p.plan.Ops {
					if o.Kind == plan.BatchNorm && repeat < 0 && !o.Apart && o.Out[0].Shape[1]%8 == 0 {
						t.Errorf("the result of %s may lie over an argument, which the library does not promise to bear", o.Node)
					}
				}
				machine.Set("trace", 1)
				for step := range 4 {
					// Short batches are our kernels' in any case.
					if step == 3 {
						p.SetExamples(3)
						if err := r.SetExamples(3); err != nil {
							t.Fatal(err)
						}
					}
					p.fill(t, r, wide.classes, uint64(step))
					got := p.step(t)
					if err := r.Step(); err != nil {
						t.Fatal(err)
					}
					p.near(t, r, step, got, c.loss, c.gradient)
					if step > 0 {
						continue
					}
					// Left to us: the gradient of bn3, which has no mask, and
					// its forward pass where 12 channels are too odd.
					want := map[cuda.Compute]int{cuda.Float32: 3, cuda.BFloat16: 6, cuda.Float16: 6}[c.typ]
					if own := strings.Count(strings.Join(machine.Trace(), "\n"), "cuLaunchKernel bn_"); repeat < 0 && own != want {
						t.Errorf("%d of our kernels for normalisations were launched, want %d", own, want)
					}
				}
				for step := range 4 {
					if step == 3 {
						ours.SetExamples(3)
					}
					ours.fill(t, nil, wide.classes, uint64(step))
					ours.step(t)
				}
				for name, want := range ours.host.States {
					got := p.host.States[name]
					for k := range want.Mean {
						if math.Abs(float64(got.Mean[k]-want.Mean[k])) > 1e-3 || math.Abs(float64(got.Var[k]-want.Var[k])) > 1e-3 {
							t.Fatalf("running mean and variance %d of %s are %g and %g, with our kernels %g and %g", k, name, got.Mean[k], got.Var[k], want.Mean[k], want.Var[k])
						}
					}
				}
				if repeat > 0 && !strings.Contains(log.String(), "a normalisation takes ") {
					t.Errorf("the log has no comparison of normalisations:\n%s", log.String())
				}
			})
		}
	}
}

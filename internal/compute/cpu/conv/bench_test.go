package conv

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/compute/pool"
)

var benchThreads = flag.Int("threads", 0, "threads of the benchmarks; 0: one a CPU")

// The layers of ResNet18 on 32×32 images, each shape once: ImageNet stem first, then CIFAR stem.
var benchLayers = []struct {
	stem  string
	shape Shape
}{
	{"imagenet", square(64, 32, 3, 64, 7, 2, 3)},
	{"imagenet", square(64, 8, 64, 64, 3, 1, 1)},
	{"imagenet", square(64, 8, 64, 128, 3, 2, 1)},
	{"imagenet", square(64, 4, 128, 128, 3, 1, 1)},
	{"imagenet", square(64, 4, 128, 256, 3, 2, 1)},
	{"imagenet", square(64, 2, 256, 256, 3, 1, 1)},
	{"imagenet", square(64, 2, 256, 512, 3, 2, 1)},
	{"imagenet", square(64, 1, 512, 512, 3, 1, 1)},
	{"imagenet", square(64, 8, 64, 128, 1, 2, 0)},
	{"cifar", square(64, 32, 3, 64, 3, 1, 1)},
	{"cifar", square(64, 32, 64, 64, 3, 1, 1)},
	{"cifar", square(64, 32, 64, 128, 3, 2, 1)},
	{"cifar", square(64, 16, 128, 128, 3, 1, 1)},
	{"cifar", square(64, 16, 128, 256, 3, 2, 1)},
	{"cifar", square(64, 8, 256, 256, 3, 1, 1)},
	{"cifar", square(64, 8, 256, 512, 3, 2, 1)},
	{"cifar", square(64, 4, 512, 512, 3, 1, 1)},
	{"cifar", square(64, 32, 64, 128, 1, 2, 0)},
}

// Rates are nominal (padding counted) and the best of the calls timed, so that a busy machine does
// not hide the kernel; of-peak is their share of the multiply-add ceiling of all threads, measured
// beside them.
//
//	go test -run xxx -bench Layers -benchtime 0.2s ./internal/compute/cpu/conv/ [-threads 1]
func BenchmarkLayers(b *testing.B) {
	p := pool.New(*benchThreads)
	defer p.Close()
	for _, l := range benchLayers {
		s := l.shape
		for _, dtype := range []string{"float32", "bf16"} {
			b.Run(fmt.Sprintf("stem=%s/x=%dx%dx%d/w=%dx%dx%d/stride=%d/dtype=%s", l.stem, s.H, s.W, s.C, s.K, s.R, s.S, s.StrideH, dtype), func(b *testing.B) {
				build, measurePeak := New, f32.MeasurePeak
				if dtype == "bf16" {
					build, measurePeak = NewBFloat16, f32.MeasurePairPeak
				}
				plan, err := build(s, p)
				if err != nil {
					b.Fatal(err)
				}
				r := rand.New(rand.NewPCG(1, 1))
				x, w, y := random(r, s.XLen()), random(r, s.WLen()), random(r, s.YLen())
				out := make([]float32, max(len(x), len(w), len(y)))
				for _, pass := range []struct {
					name string
					f    func()
				}{
					{"forward", func() { plan.Forward(out[:len(y)], x, w) }},
					{"data", func() { plan.BackwardData(out[:len(x)], y, w) }},
					{"weight", func() { plan.BackwardWeight(out[:len(w)], x, y) }},
				} {
					b.Run("pass="+pass.name, func(b *testing.B) {
						best := time.Hour
						for b.Loop() {
							t := time.Now()
							pass.f()
							best = min(best, time.Since(t))
						}
						rate := s.Flops() / best.Seconds()
						b.ReportMetric(rate/1e9, "best-GFLOP/s")
						if peak := measurePeak(f32.Active(), 5*time.Millisecond); peak > 0 {
							b.ReportMetric(rate/peak/float64(p.Threads()), "of-peak")
						}
					})
				}
			})
		}
	}
}

package main

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/paragon-train/paragon/internal/compute/cpu/conv"
	"github.com/paragon-train/paragon/internal/f32"
	"github.com/paragon-train/paragon/internal/pool"
	"github.com/urfave/cli/v2"
)

const peakTime = 20 * time.Millisecond

// A layer is a convolution of ResNet18 over 32×32 images. A linear layer is one over images of one pixel.
type layer struct {
	stem                               string
	size, in, out, kernel, stride, pad int
}

func (l layer) shape(batch int) conv.Shape {
	return conv.Shape{N: batch, H: l.size, W: l.size, C: l.in, K: l.out, R: l.kernel, S: l.kernel,
		StrideH: l.stride, StrideW: l.stride, PadH: l.pad, PadW: l.pad}
}

// Each shape once.
var layers = []layer{
	{"imagenet", 32, 3, 64, 7, 2, 3},
	{"imagenet", 8, 64, 64, 3, 1, 1},
	{"imagenet", 8, 64, 128, 3, 2, 1},
	{"imagenet", 8, 64, 128, 1, 2, 0},
	{"imagenet", 4, 128, 128, 3, 1, 1},
	{"imagenet", 4, 128, 256, 3, 2, 1},
	{"imagenet", 4, 128, 256, 1, 2, 0},
	{"imagenet", 2, 256, 256, 3, 1, 1},
	{"imagenet", 2, 256, 512, 3, 2, 1},
	{"imagenet", 2, 256, 512, 1, 2, 0},
	{"imagenet", 1, 512, 512, 3, 1, 1},
	{"cifar", 32, 3, 64, 3, 1, 1},
	{"cifar", 32, 64, 64, 3, 1, 1},
	{"cifar", 32, 64, 128, 3, 2, 1},
	{"cifar", 32, 64, 128, 1, 2, 0},
	{"cifar", 16, 128, 128, 3, 1, 1},
	{"cifar", 16, 128, 256, 3, 2, 1},
	{"cifar", 16, 128, 256, 1, 2, 0},
	{"cifar", 8, 256, 256, 3, 1, 1},
	{"cifar", 8, 256, 512, 3, 2, 1},
	{"cifar", 8, 256, 512, 1, 2, 0},
	{"cifar", 4, 512, 512, 3, 1, 1},
	{"mlp", 1, 784, 512, 1, 1, 0},
	{"mlp", 1, 512, 512, 1, 1, 0},
	{"mlp", 1, 512, 10, 1, 1, 0},
}

func layersCommand() *cli.Command {
	return &cli.Command{
		Name:  "layers",
		Usage: "time each layer of ResNet18 and of the MLP against the measured peak",
		Description: `Rates are nominal: products with pading count, though none is computed, and a layer by Winograd counts those of
the plain way; so of-peak may pass 1. They are of the fastest call, so that a busy machine does not hide the kernel.`,
		Flags: []cli.Flag{
			&cli.IntFlag{Name: "batch", Value: 64},
			&cli.IntSliceFlag{Name: "threads", Value: cli.NewIntSlice(1, 2)},
			&cli.DurationFlag{Name: "time", Value: 200 * time.Millisecond, Usage: "of one result"},
		},
		Action: func(c *cli.Context) error {
			if err := header(c); err != nil {
				return err
			}
			for _, l := range layers {
				for _, threads := range c.IntSlice("threads") {
					if err := timeLayer(c, l, threads); err != nil {
						return err
					}
				}
			}
			return nil
		},
	}
}

func timeLayer(c *cli.Context, l layer, threads int) error {
	p := pool.New(threads)
	defer p.Close()
	s := l.shape(c.Int("batch"))
	plan, err := conv.New(s, p)
	if err != nil {
		return err
	}
	r := rand.New(rand.NewPCG(1, 1))
	x, w, y := normal(r, s.XLen()), normal(r, s.WLen()), normal(r, s.YLen())
	out := make([]float32, max(len(x), len(w), len(y)))
	for _, pass := range []struct {
		name string
		run  func()
	}{
		{"forward", func() { plan.Forward(out[:len(y)], x, w) }},
		{"data", func() { plan.BackwardData(out[:len(x)], y, w) }},
		{"weight", func() { plan.BackwardWeight(out[:len(w)], x, y) }},
	} {
		peak := f32.MeasurePeak(f32.Active(), peakTime) * float64(threads)
		n, best := 0, time.Hour
		for start := time.Now(); n < 2 || time.Since(start) < c.Duration("time"); n++ {
			t := time.Now()
			pass.run()
			best = min(best, time.Since(t))
		}
		fmt.Fprintf(c.App.Writer, "BenchmarkLayer/stem=%s/x=%dx%dx%d/w=%dx%dx%d/stride=%d/batch=%d/threads=%d/pass=%s \t%d\t%d best-ns/op\t%.1f GFLOP/s",
			l.stem, s.H, s.W, s.C, s.K, s.R, s.S, s.StrideH, s.N, threads, pass.name, n, best.Nanoseconds(), s.Flops()/best.Seconds()/1e9)
		if peak > 0 {
			fmt.Fprintf(c.App.Writer, "\t%.2f of-peak", s.Flops()/best.Seconds()/peak)
		}
		fmt.Fprintln(c.App.Writer)
	}
	return nil
}

func normal(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

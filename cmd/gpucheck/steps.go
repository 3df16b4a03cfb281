package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/paragon-train/paragon/internal/cuda/kernels"
	"github.com/paragon-train/paragon/nn/cuda"
	"github.com/paragon-train/paragon/nn/plan"
)

// flopPerImage is what a training step of ResNet18 for images of 32×32 takes: three times the forward pass's 0.5554 G products and sums.
const flopPerImage = 3 * 2 * 0.5554e9

// stepCases are the measurements in the order in which they matter.
var stepCases = []struct {
	typ   cuda.Compute
	batch int
	eager bool
}{
	{cuda.BFloat16, 512, false}, {cuda.BFloat16, 512, true}, {cuda.BFloat16, 1024, false}, {cuda.BFloat16, 256, false}, {cuda.BFloat16, 128, false},
	{cuda.Float16, 512, false}, {cuda.TF32, 512, false}, {cuda.BFloat16, 768, false}, {cuda.BFloat16, 64, false}, {cuda.Float32, 512, false},
	{cuda.BFloat16, 128, true},
}

// stepName names a measurement; the bars look for it.
func stepName(t cuda.Compute, batch int, eager bool) string {
	how := "graphs"
	if eager {
		how = "eager"
	}
	return fmt.Sprintf("%v, batch %d, %s", t, batch, how)
}

// checkSteps measures training with the update on the device: only images, as bytes, and the loss travel.
func checkSteps(c *checker) error {
	gpu, err := c.openGPU()
	if err != nil {
		return err
	}
	for _, s := range stepCases {
		name := stepName(s.typ, s.batch, s.eager)
		if c.late(name) || c.small && (s.batch != 512 || s.typ != cuda.BFloat16) {
			continue
		}
		if err := c.speed(gpu, name, s.typ, s.batch, s.eager); err != nil {
			c.failed(name, err)
			if lost(err) {
				return err
			}
		}
	}
	return gpu.Close()
}

// trainer is a program in training for its speed.
func (c *checker) trainer(gpu *cuda.GPU, batch int, cfg cuda.Config) (*program, error) {
	size, width := 32, 64
	if c.small {
		batch, size, width = 4, 8, 8
	}
	cfg.GPU = gpu
	p, err := resnet18(batch, size, width).compile(cfg)
	if err != nil {
		return nil, err
	}
	px, err := p.Pixels(0, cuda.PixelsConfig{C: 3, H: size, W: size, Mean: []float32{0.5, 0.5, 0.5}, Std: []float32{0.25, 0.25, 0.25}})
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	rng := rand.New(rand.NewPCG(9, 9))
	for i := range px.Images {
		px.Images[i] = uint8(rng.IntN(256))
	}
	labels := p.host.Inputs[1].Data.([]int32)
	for i := range labels {
		labels[i] = int32(rng.IntN(10))
	}
	return p, nil
}

func (c *checker) speed(gpu *cuda.GPU, name string, t cuda.Compute, batch int, eager bool) (err error) {
	begun := time.Now()
	u, err := newUpdater(gpu, 0.01)
	if err != nil {
		return err
	}
	p, err := c.trainer(gpu, batch, cuda.Config{Type: t, Eager: eager, Update: u.update})
	if err != nil {
		return errors.Join(err, u.close())
	}
	defer func() { err = errors.Join(err, p.Close(), u.close()) }()
	loss, err := p.step(c.ctx)
	if err != nil {
		return err
	}
	prepared := time.Since(begun)
	var launches int
	var bytes int64
	if eager { // a graph's launches are none of ours
		gpu.Kernels().Trace(func(l kernels.Launch) { launches, bytes = launches+1, bytes+l.Read+l.Written })
		_, err = p.step(c.ctx)
		gpu.Kernels().Trace(nil)
		if err != nil {
			return err
		}
	}
	ms, err := c.pace(p, nil)
	if err != nil {
		return err
	}
	last, err := p.Number(p.plan.Loss)
	if err != nil {
		return err
	}
	rate := float64(batch) / ms * 1e3
	detail := fmt.Sprintf("%.3f ms, %.0f TFLOP/s; loss %.3f, then %.3f; memory %+v; ready after %.1f s", ms, rate*flopPerImage/1e12, loss, last, p.plan.Memory, prepared.Seconds())
	if eager {
		detail += fmt.Sprintf("; our kernels: %d launches, %.1f MB an image", launches, float64(bytes)/1e6/float64(batch))
	}
	c.row(row{Name: name, Status: info, Value: rate, Unit: "images/s", Detail: detail})
	return nil
}

// pace is the median time of a step in milliseconds, over spells of ten.
func (c *checker) pace(p *program, hooks *plan.Hooks) (float64, error) {
	least, spell, length := 5, 10, 1500*time.Millisecond
	if c.small {
		least, spell, length = 1, 1, 0
	}
	if hooks == nil {
		hooks = &plan.Hooks{}
	}
	for range 3 {
		if err := p.Run(c.ctx, false, *hooks); err != nil {
			return 0, err
		}
	}
	var times []float64
	begun := time.Now()
	for len(times) < least || time.Since(begun) < length {
		t := time.Now()
		for range spell {
			if err := p.Run(c.ctx, false, *hooks); err != nil {
				return 0, err
			}
		}
		times = append(times, time.Since(t).Seconds()*1e3/float64(spell))
	}
	slices.Sort(times)
	return times[len(times)/2], nil
}

// overlap compares a step whose gradients and parameters travel with one that keeps them.
func (c *checker) overlap() error {
	gpu, err := c.openGPU()
	if err != nil {
		return err
	}
	const batch = 512
	u, err := newUpdater(gpu, 0.01)
	if err != nil {
		return err
	}
	var ms [2]float64
	for i := range ms {
		cfg := cuda.Config{Type: cuda.BFloat16}
		if i == 0 {
			cfg.Update = u.update
		}
		p, err := c.trainer(gpu, batch, cfg)
		if err != nil {
			return err
		}
		ms[i], err = c.pace(p, nil)
		if err = errors.Join(err, p.Close()); err != nil {
			return err
		}
	}
	c.measured("a step that keeps its numbers", ms[0], "ms", "bfloat16, batch %d", batch)
	c.measured("a step whose numbers travel both ways", ms[1], "ms", "%.0f%% of the speed; 45 MB each way beside the computing", 100*ms[0]/ms[1])
	return errors.Join(u.close(), gpu.Close())
}

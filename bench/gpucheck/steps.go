package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	"github.com/paragon-train/paragon/internal/compute/cuda"
	"github.com/paragon-train/paragon/internal/compute/plan"
	"github.com/paragon-train/paragon/internal/cuda/cudnn"
	"github.com/paragon-train/paragon/internal/cuda/kernels"
)

// flopPerImage is what a training step of ResNet18 for images of 32×32 takes: three times the forward pass's 0.5554 G products and sums.
const flopPerImage = 3 * 2 * 0.5554e9

// A stepCase is one measurement.
type stepCase struct {
	typ   cuda.Compute
	batch int
	eager bool // kernels launched one by one
	norms bool // with cuDNN's normalisations
}

// stepCases are in the order in which they matter.
var stepCases = []stepCase{
	{typ: cuda.BFloat16, batch: 512}, {typ: cuda.BFloat16, batch: 512, eager: true}, {typ: cuda.BFloat16, batch: 1024}, {typ: cuda.BFloat16, batch: 256},
	{typ: cuda.BFloat16, batch: 128}, {typ: cuda.BFloat16, batch: 768}, {typ: cuda.Float16, batch: 512}, {typ: cuda.TF32, batch: 512},
	{typ: cuda.Float32, batch: 512}, {typ: cuda.BFloat16, batch: 512, norms: true}, {typ: cuda.BFloat16, batch: 128, eager: true}, {typ: cuda.BFloat16, batch: 64},
}

// String names a measurement; the bars look for it.
func (s stepCase) String() string {
	how := "graphs"
	if s.eager {
		how = "eager"
	}
	if s.norms {
		how += " and norms of cuDNN"
	}
	return fmt.Sprintf("%v, batch %d, %s", s.typ, s.batch, how)
}

// checkSteps measures training with the update on the device: only images, as bytes, and the loss are copied.
func checkSteps(c *checker) error {
	remembered := "no choices of engines were remembered"
	path := cudnn.DefaultCachePath()
	if _, err := os.Stat(path); err == nil {
		remembered = "there were choices of engines in " + path
	}
	options := c.measuring(0.2)
	gpus := map[bool]*cuda.GPU{}
	for i, s := range stepCases {
		if c.late(s.String()) || c.small && (s.batch != 512 || s.typ == cuda.TF32 || s.typ == cuda.Float32) {
			continue
		}
		if gpus[s.norms] == nil {
			options.Norms = s.norms
			begun := time.Now()
			gpu, err := c.openGPU(c.device, options)
			if err != nil {
				return err
			}
			if gpus[s.norms] = gpu; i == 0 {
				c.measured("open the GPU", time.Since(begun).Seconds(), "s", "the driver, its libraries, the kernels")
			}
		}
		ready, err := c.speed(gpus[s.norms], s)
		if err != nil {
			c.failed(s.String(), err)
			if lost(err) {
				return err
			}
			continue
		}
		switch i { // of the same questions
		case 0:
			c.measured("from model to first step, first time", ready.Seconds(), "s", "%s, batch %d; %s", s.typ, s.batch, remembered)
		case 1:
			c.measured("from model to first step, again", ready.Seconds(), "s", "%s, batch %d, with the choices of engines from before", s.typ, s.batch)
		}
	}
	var errs []error
	for _, norms := range []bool{false, true} {
		if gpu := gpus[norms]; gpu != nil {
			errs = append(errs, gpu.Close())
		}
	}
	return errors.Join(errs...)
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

// speed measures one case, and how long it took to the end of the first step.
func (c *checker) speed(gpu *cuda.GPU, s stepCase) (prepared time.Duration, err error) {
	begun := time.Now()
	u, err := newUpdater(gpu, 0.01)
	if err != nil {
		return 0, err
	}
	p, err := c.trainer(gpu, s.batch, cuda.Config{Type: s.typ, Eager: s.eager, Update: u.update})
	if err != nil {
		return 0, errors.Join(err, u.close())
	}
	defer func() { err = errors.Join(err, p.Close(), u.close()) }()
	loss, err := p.step(c.ctx)
	if err != nil {
		return 0, err
	}
	prepared = time.Since(begun)
	var launches int
	var bytes int64
	if s.eager { // a graph's launches are none of ours
		gpu.Kernels().Trace(func(l kernels.Launch) { launches, bytes = launches+1, bytes+l.Read+l.Written })
		_, err = p.step(c.ctx)
		gpu.Kernels().Trace(nil)
		if err != nil {
			return 0, err
		}
	}
	ms, err := c.pace(func() error { return p.Run(c.ctx, false, plan.Hooks{}) })
	if err != nil {
		return 0, err
	}
	last, err := p.Number(p.plan.Loss)
	if err != nil {
		return 0, err
	}
	rate := float64(s.batch) / ms * 1e3
	detail := fmt.Sprintf("%.3f ms, %.0f TFLOP/s; loss %.3f, then %.3f; memory %+v; ready after %.1f s", ms, rate*flopPerImage/1e12, loss, last, p.plan.Memory, prepared.Seconds())
	if s.eager {
		detail += fmt.Sprintf("; our kernels: %d launches, %.1f MB an image", launches, float64(bytes)/1e6/float64(s.batch))
	}
	c.row(row{Name: s.String(), Status: info, Value: rate, Unit: "images/s", Detail: detail})
	return prepared, nil
}

// pace is the median time of a step in milliseconds, over spells of ten.
func (c *checker) pace(step func() error) (float64, error) {
	least, spell, length := 5, 10, 1500*time.Millisecond
	if c.small {
		least, spell, length = 1, 1, 0
	}
	for range 3 {
		if err := step(); err != nil {
			return 0, err
		}
	}
	var times []float64
	begun := time.Now()
	for len(times) < least || time.Since(begun) < length {
		t := time.Now()
		for range spell {
			if err := step(); err != nil {
				return 0, err
			}
		}
		times = append(times, time.Since(t).Seconds()*1e3/float64(spell))
	}
	slices.Sort(times)
	return times[len(times)/2], nil
}

// overlap compares a step whose gradients and parameters are copied to and from the host with one that keeps them.
func (c *checker) overlap() error {
	gpu, err := c.openGPU(c.device, c.measuring(0.5))
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
		ms[i], err = c.pace(func() error { return p.Run(c.ctx, false, plan.Hooks{}) })
		if err = errors.Join(err, p.Close()); err != nil {
			return err
		}
	}
	c.measured("a step that keeps its numbers", ms[0], "ms", "bfloat16, batch %d", batch)
	c.measured("a step whose numbers travel both ways", ms[1], "ms", "%.0f%% of the speed; 45 MB each way beside the computing", 100*ms[0]/ms[1])
	return errors.Join(u.close(), gpu.Close())
}

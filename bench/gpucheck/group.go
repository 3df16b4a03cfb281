package main

import (
	"errors"
	"fmt"
	"math"

	"github.com/paragon-train/paragon/internal/compute/cuda"
	"github.com/paragon-train/paragon/internal/compute/plan"
	"github.com/paragon-train/paragon/internal/cuda/dl"
	"github.com/paragon-train/paragon/nn"
	"gorgonia.org/gorgonia"
)

// checkGroup checks and measures GPUs that take steps as one, by each way between them.
func checkGroup(c *checker) error {
	const name = "GPUs as one"
	devices, err := cuda.Devices(cuda.Options{})
	if err != nil {
		return err
	}
	if len(devices) < 2 {
		c.skipped(name, fmt.Sprintf("this machine has %d GPU, and this takes 2", len(devices)))
		return nil
	}
	c.infof(name, "%d GPUs", len(devices))
	for _, link := range []cuda.Link{cuda.NCCL, cuda.PeerCopies, cuda.ThroughHost} {
		for _, check := range []struct {
			name string
			run  func(name string, gpus []*cuda.GPU, link cuda.Link) error
		}{{"of half a batch each", c.groupHalves}, {"of a batch each", c.groupSums}} {
			name := fmt.Sprintf("2 GPUs by %v, %s", link, check.name)
			if c.late(name) {
				continue
			}
			err := c.onGPUs(2, guesses, func(gpus []*cuda.GPU) error { return check.run(name, gpus, link) })
			c.groupEnded(name, err)
		}
	}
	var one float64
	measure := func(name string, n int, link cuda.Link) {
		if c.late(name) {
			return
		}
		err := c.onGPUs(n, c.measuring(0.3), func(gpus []*cuda.GPU) error {
			rate, err := c.groupSpeed(name, gpus, link, one)
			if n == 1 {
				one = rate
			}
			return err
		})
		c.groupEnded(name, err)
	}
	measure("1 GPU, speed", 1, cuda.AutoLink)
	measure("2 GPUs, speed", 2, cuda.AutoLink)
	for n := 4; n <= len(devices); n *= 2 {
		measure(fmt.Sprintf("%d GPUs, speed", n), n, cuda.AutoLink)
	}
	measure("2 GPUs by peer copies, speed", 2, cuda.PeerCopies)
	measure("2 GPUs by the host's memory, speed", 2, cuda.ThroughHost)
	return nil
}

// errNoWay is that of GPUs that have no such way between them.
var errNoWay = errors.New("not available on this machine")

// groupEnded is a row for an error.
func (c *checker) groupEnded(name string, err error) {
	switch {
	case errors.Is(err, dl.ErrNoLibrary) || errors.Is(err, errNoWay):
		c.skipped(name, err.Error())
	case err != nil:
		c.failed(name, err)
	}
}

// onGPUs opens the first n GPUs for f.
func (c *checker) onGPUs(n int, o cuda.Options, f func(gpus []*cuda.GPU) error) (err error) {
	var gpus []*cuda.GPU
	defer func() {
		if lost(err) {
			return // what a lost GPU holds goes with the process
		}
		for _, g := range gpus {
			err = errors.Join(err, g.Close())
		}
	}()
	for i := range n {
		g, err := c.openGPU(i, o)
		if err != nil {
			return err
		}
		gpus = append(gpus, g)
	}
	return f(gpus)
}

// joined makes programs of a model on all GPUs, f before they are joined, and then the group.
func joined(gpus []*cuda.GPU, link cuda.Link, compile func(gpu *cuda.GPU) (*program, error), before, after func(programs []*program, g *cuda.Group) error) (err error) {
	var programs []*program
	var executors []*cuda.Executor
	defer func() {
		for _, p := range programs {
			err = errors.Join(err, p.Close())
		}
	}()
	for _, gpu := range gpus {
		p, err := compile(gpu)
		if err != nil {
			return err
		}
		programs, executors = append(programs, p), append(executors, p.Executor)
	}
	if before != nil {
		if err := before(programs, nil); err != nil {
			return err
		}
	}
	g, err := cuda.NewGroup(executors, link)
	if err != nil {
		if link == cuda.PeerCopies && !lost(err) {
			err = fmt.Errorf("%w: %w", errNoWay, err)
		}
		return err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	return after(programs, g)
}

// groupHalves compares the gradient of two GPUs with half of a batch each with that of one which has the whole batch, of a network
// that does not normalise over batches.
func (c *checker) groupHalves(name string, gpus []*cuda.GPU, link cuda.Link) (err error) {
	const batch = 6
	net := func(n int) model {
		return classifier("bias and ReLU", n, []int{2, 9, 9}, func(x *gorgonia.Node) *gorgonia.Node {
			x = nn.ReLU(conv(x, "conv1", 8, 3, 1, true))
			return linear(nn.ReLU(conv(x, "conv2", 12, 3, 2, true)), "fc")
		})
	}
	whole, err := net(batch).compile(cuda.Config{GPU: gpus[0], Type: cuda.Float32})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, whole.Close()) }()
	if err := whole.fill(10, 1); err != nil {
		return err
	}
	loss, err := whole.step(c.ctx)
	if err != nil {
		return err
	}
	return joined(gpus, link, func(gpu *cuda.GPU) (*program, error) {
		return net(batch / 2).compile(cuda.Config{GPU: gpu, Type: cuda.Float32, Bucket: 2048})
	}, nil, func(programs []*program, g *cuda.Group) error {
		for i, p := range programs {
			p.SetGradScale(0.5) // of two means
			for k, in := range p.host.Inputs {
				switch d := in.Data.(type) {
				case []float32:
					copy(d, whole.host.Inputs[k].Data.([]float32)[i*len(d):])
				case []int32:
					copy(d, whole.host.Inputs[k].Data.([]int32)[i*len(d):])
				}
			}
		}
		mean := 0.0
		for range 3 { // launched one by one, captured, replayed
			if err := g.Run(c.ctx, plan.Hooks{}); err != nil {
				return err
			}
		}
		for _, p := range programs {
			part, err := p.Number(p.plan.Loss)
			if err != nil {
				return err
			}
			mean += part / float64(len(programs))
		}
		want := map[string][]float64{}
		for i, v := range whole.plan.Params {
			want[v.Name] = float64s(whole.host.Grads[i])
		}
		all, most, of := programs[0].distance(func(name string) []float64 { return want[name] })
		c.within(name+": loss", math.Abs(mean-loss)/math.Abs(loss), 1e-5, fmt.Sprintf("%.7f, want that of one GPU with the whole batch, %.7f", mean, loss))
		c.within(name+gradientSuffix, all, 1e-4, fmt.Sprintf("%v; against one GPU with the whole batch; most in %s: %.3g", g, of, most))
		return nil
	})
}

// groupSums compares a group's gradients of ResNet18 with the sum of those that its GPUs give alone.
func (c *checker) groupSums(name string, gpus []*cuda.GPU, link cuda.Link) error {
	m := resnet18(16, 32, 32)
	if c.small {
		m = resnet18(3, 8, 8)
	}
	for _, t := range []cuda.Compute{cuda.Float32, cuda.BFloat16} {
		want := map[string][]float64{}
		err := joined(gpus, link, func(gpu *cuda.GPU) (*program, error) { return m.compile(cuda.Config{GPU: gpu, Type: t}) },
			func(programs []*program, _ *cuda.Group) error {
				for k, p := range programs {
					if err := p.fill(m.classes, uint64(k)); err != nil {
						return err
					}
					if _, err := p.step(c.ctx); err != nil {
						return err
					}
					for i, v := range p.plan.Params {
						if want[v.Name] == nil {
							want[v.Name] = make([]float64, v.Len())
						}
						for at, x := range p.host.Grads[i] {
							want[v.Name][at] += float64(x)
						}
					}
				}
				return nil
			}, func(programs []*program, g *cuda.Group) error {
				for range 3 {
					if err := g.Run(c.ctx, plan.Hooks{}); err != nil {
						return err
					}
				}
				all, most, of := programs[0].distance(func(name string) []float64 { return want[name] })
				c.within(fmt.Sprintf("%s, %v%s", name, t, gradientSuffix), all, 1e-5, fmt.Sprintf("%v; %s, against the sum of each GPU's alone; most in %s: %.3g", g, m.name, of, most))
				return nil
			})
		if err != nil {
			return err
		}
	}
	return nil
}

// groupSpeed measures steps with gradients and parameters copied to the host and back.
func (c *checker) groupSpeed(name string, gpus []*cuda.GPU, link cuda.Link, one float64) (rate float64, err error) {
	const batch = 512
	err = joined(gpus, link, func(gpu *cuda.GPU) (*program, error) { return c.trainer(gpu, batch, cuda.Config{Type: cuda.BFloat16}) }, nil,
		func(programs []*program, g *cuda.Group) error {
			ms, err := c.pace(func() error { return g.Run(c.ctx, plan.Hooks{}) })
			if err != nil {
				return err
			}
			rate = float64(batch*len(gpus)) / ms * 1e3
			against := ""
			if one > 0 {
				against = fmt.Sprintf(", %.2f × one GPU", rate/one)
			}
			c.measured(name, rate, "images/s", "%.3f ms a step of %d images on each%s; %v", ms, batch, against, g)
			return nil
		})
	return rate, err
}

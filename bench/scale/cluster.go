package main

import (
	"fmt"

	"github.com/paragon-train/paragon/bench/costs"
	"github.com/paragon-train/paragon/internal/scheduler"
	"github.com/paragon-train/paragon/internal/wire"
)

// A cluster is what is simulated: a job on hosts.
type cluster struct {
	workers, servers int
	// Placement: oneHost has everything on one host; ownHosts gives every worker and every server a host; shared has a worker
	// on each host, and server i on host i mod workers, as launch places them.
	placement string
	cores     int
	threads   int     // of a worker's computing
	link      float64 // bytes a second each way of a host; with oneHost, of the one medium that all messages share both ways, or 0
	latency   float64 // seconds from one host to another
	costs     *costs.Costs
	transport string
	rule      string // of the update; "none": the sum becomes the value
	model     model
	rounds    int // simulated; the first does not count
	fold      int // so many workers that do the same are simulated as one; 1: none
}

const (
	oneHost  = "one"
	ownHosts = "own"
	shared   = "shared"
)

// A layer is some keys whose gradients are there at the same time, and the computing that a step spends on it.
type layer struct {
	keys              []int // values of each
	forward, backward float64
}

// A model is layers from the first to the last.
type model struct {
	name   string
	batch  int
	layers []layer
}

func (m *model) step() (seconds float64) {
	for _, l := range m.layers {
		seconds += l.forward + l.backward
	}
	return seconds
}

// withStep is the model with times that add up to a step of so many seconds on one thread.
func (m model) withStep(seconds float64) model {
	scale := seconds / m.step()
	out := model{name: m.name, batch: m.batch}
	for _, l := range m.layers {
		l.forward, l.backward = l.forward*scale, l.backward*scale
		out.layers = append(out.layers, l)
	}
	return out
}

// resnet18 has the layers of ResNet18 with 10 classes on 32×32 images, with the ImageNet stem or that for CIFAR, and a step of
// one second: two thirds of it backward, shared out by multiplications.
func resnet18(cifar bool) model {
	m := model{name: "resnet18-imagenet"}
	size, kernel := 16, 7 // of the stem's output
	if cifar {
		m.name, size, kernel = "resnet18-cifar", 32, 3
	}
	add := func(out, in, k, size int) {
		products := float64(out*in*k*k) * float64(size*size)
		m.layers = append(m.layers, layer{keys: []int{out * in * k * k, out, out}, forward: products, backward: 2 * products})
	}
	add(64, 3, kernel, size)
	if !cifar {
		size = 8
	}
	in := 64
	for stage, out := range []int{64, 128, 256, 512} {
		if stage > 0 {
			size /= 2
		}
		for block := range 2 {
			add(out, in, 3, size)
			add(out, out, 3, size)
			if stage > 0 && block == 0 {
				add(out, in, 1, size)
			}
			in = out
		}
	}
	m.layers = append(m.layers, layer{keys: []int{10 * 512, 10}, forward: 5120, backward: 10240})
	return m.withStep(1)
}

// plan places the model's keys on the servers as the scheduler does. keys[l] are those of layer l.
func (c *cluster) plan() (keys [][]*wire.KeyPlan, err error) {
	var declares []wire.Declare
	for l, layer := range c.model.layers {
		for k, n := range layer.keys {
			declares = append(declares, wire.Declare{Form: wire.FormDense, Rule: wire.RuleOptimizer, Size: uint64(n), Name: fmt.Sprintf("%d/%d", l, k)})
		}
	}
	plans, err := scheduler.PlanKeys(c.servers, declares)
	if err != nil {
		return nil, err
	}
	for _, layer := range c.model.layers {
		keys = append(keys, plans[:len(layer.keys)])
		plans = plans[len(layer.keys):]
	}
	return keys, nil
}

func (c *cluster) validate() error {
	_, known := c.costs.Transports[c.transport]
	_, rule := c.costs.Update[c.rule]
	switch {
	case c.workers < 1 || c.servers < 1 || c.cores < 1 || c.threads < 1:
		return fmt.Errorf("got %d workers, %d servers, %d cores and %d threads, want at least 1 of each", c.workers, c.servers, c.cores, c.threads)
	case c.placement != oneHost && c.placement != ownHosts && c.placement != shared:
		return fmt.Errorf("placement is %q, want %s, %s or %s", c.placement, oneHost, ownHosts, shared)
	case c.placement != oneHost && !(c.link > 0):
		return fmt.Errorf("link is %v bytes a second, want more than 0", c.link)
	case c.fold < 1 || c.workers%c.fold != 0 || c.fold > 1 && c.placement != ownHosts:
		return fmt.Errorf("fold is %d, want a divisor of the %d workers, and servers on hosts of their own", c.fold, c.workers)
	case !known:
		return fmt.Errorf("transport %q: the costs have none of that name", c.transport)
	case !rule:
		return fmt.Errorf("rule %q: the costs have none of that name", c.rule)
	case len(c.model.layers) == 0 || c.rounds < 2:
		return fmt.Errorf("got %d layers and %d rounds, want layers and at least 2 rounds", len(c.model.layers), c.rounds)
	}
	return nil
}

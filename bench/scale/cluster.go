package main

import (
	"fmt"

	"github.com/paragon-train/paragon/bench/costs"
	"github.com/paragon-train/paragon/internal/member/scheduler"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A cluster is what is simulated: a job on hosts.
type cluster struct {
	workers, servers int

	// perHost is the number of workers of a host; with oneHost all are on it.
	perHost int

	// Placement: oneHost has everything on one host; ownHosts gives every server a host of its
	// own; shared has server i beside the workers of host i mod hosts, as launch places them.
	placement string

	// cores are those of each host, and threads those on which a worker computes.
	cores, threads int

	// link is the speed of a host's link, in bytes a second each way. With oneHost it is that of
	// the one medium that all messages share both ways; 0: memory, which takes no time.
	link float64

	// latency is the time from one host to another, in seconds.
	latency float64

	// llc is the size of a host's last-level cache, in bytes.
	llc float64

	costs *costs.Costs

	// transport is the one between hosts; with oneHost, the one within it.
	transport string

	// rule is the one of the update; "none": the sum becomes the value.
	rule string

	// push and pull are the codes of gradients and of values; "none": float32.
	push, pull string

	// sums lets workers of a host add up before one push leaves it.
	sums bool

	// together lets small keys travel as one message for each server.
	together bool

	model model

	// rounds are how many are simulated; the first does not count.
	rounds int

	// fold is how many hosts whose workers do the same are simulated as one; 1: each by itself.
	fold int
}

// The placements.
const (
	oneHost  = "one"
	ownHosts = "own"
	shared   = "shared"
)

// local is the transport within a host that has others besides.
const local = "auto"

// What travels together, as kvstore.PushMany sends it, and what is added up within a host, see
// docs/design/0042-sums-within-a-host.md.
const (
	smallBytes = 16 << 10

	// pushHead and pullHead are the bytes of a key's head in a common message.
	pushHead = 124
	pullHead = 94

	// keyShare is what a key costs in a common message, of a message of its own: bench/kv's
	// work many/small against small, CPU time over TCP. Messages of their own share writes and
	// reads, too.
	keyShare = 0.8
)

// ratios are the bytes of a code, of those of float32.
var ratios = map[string]float64{"none": 1, "fp16": 0.5, "bf16": 0.5, "2bit": 1. / 16, "1bit": 1. / 32}

// grouped says whether workers of a host add up what they push to a shard's server: not where it is
// on their own host, nor with codes whose residuals belong to one worker.
func (c *cluster) grouped(bytes float64, sameHost bool) bool {
	return c.sums && c.perHost > 1 && c.placement != oneHost && !sameHost && bytes >= smallBytes && ratios[c.push] >= 0.5
}

// hosts are those with workers.
func (c *cluster) hosts() int {
	if c.placement == oneHost {
		return 1
	}
	return c.workers / c.perHost
}

// A layer is some keys whose gradients are there at the same time, and the computing that a step
// spends on it.
type layer struct {
	// keys has the number of values of each key.
	keys []int

	// forward and backward are the seconds of both passes on one thread.
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

// resnet18 has the layers of ResNet18 with 10 classes on 32×32 images, with the ImageNet stem or
// that for CIFAR, and a step of one second: two thirds of it backward, shared out by
// multiplications.
func resnet18(cifar bool) model {
	m := model{name: "resnet18-imagenet"}

	// size is the width of a layer's output, at first of the stem's.
	size, kernel := 16, 7
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

// validate names the first setting that cannot be, or of which the costs know nothing.
func (c *cluster) validate() error {
	_, known := c.costs.Transports[c.transport]
	_, near := c.costs.Transports[local]
	_, rule := c.costs.Update[c.rule]
	switch {
	case c.workers < 1 || c.servers < 1 || c.cores < 1 || c.threads < 1 || c.perHost < 1:
		return fmt.Errorf("got %d workers, %d of a host, %d servers, %d cores and %d threads, want at least 1 of each", c.workers, c.perHost, c.servers, c.cores, c.threads)
	case c.workers%c.perHost != 0:
		return fmt.Errorf("got %d workers and %d of a host, want a multiple", c.workers, c.perHost)
	case c.placement != oneHost && c.placement != ownHosts && c.placement != shared:
		return fmt.Errorf("placement is %q, want %s, %s or %s", c.placement, oneHost, ownHosts, shared)
	case c.placement != oneHost && !(c.link > 0):
		return fmt.Errorf("link is %v bytes a second, want more than 0", c.link)
	case c.fold < 1 || c.hosts()%c.fold != 0 || c.fold > 1 && c.placement != ownHosts:
		return fmt.Errorf("fold is %d, want a divisor of the %d hosts, and servers on hosts of their own", c.fold, c.hosts())
	case !known:
		return fmt.Errorf("transport %q: the costs have none of that name", c.transport)
	case !near && c.placement != oneHost && (c.sums || c.placement == shared):
		return fmt.Errorf("transport %q, within a host: the costs have none of that name", local)
	case !rule:
		return fmt.Errorf("rule %q: the costs have none of that name", c.rule)
	case len(c.model.layers) == 0 || c.rounds < 2:
		return fmt.Errorf("got %d layers and %d rounds, want layers and at least 2 rounds", len(c.model.layers), c.rounds)
	}
	for _, code := range []string{c.push, c.pull} {
		_, encode := c.costs.Encode[code]
		_, decode := c.costs.Decode[code]
		if ratios[code] == 0 || !encode || !decode {
			return fmt.Errorf("code %q: want one of none, fp16, bf16, 2bit and 1bit that the costs have", code)
		}
	}
	if ratios[c.pull] < 0.5 {
		return fmt.Errorf("code %q of values: want none, fp16 or bf16", c.pull)
	}
	return nil
}

// A part is what travels as one message to one server: a shard, or all small ones together.
type part struct {
	// layer is the first one whose forward pass waits for it.
	layer  int
	server int
	bytes  float64
	keys   int
}

// parts are what each worker pushes after the backward pass of a layer, by layer.
func (c *cluster) parts() ([][]part, error) {
	keys, err := c.plan()
	if err != nil {
		return nil, err
	}
	out := make([][]part, len(keys))

	// Small keys are pushed at the end, when the first layer's gradients are there.
	small := make([]part, c.servers)
	for l, layer := range keys {
		for _, p := range shardsOf(layer) {
			bytes := 4 * float64(p.Length)
			if c.together && bytes*ratios[c.push] <= smallBytes {
				s := &small[p.Server]
				s.server, s.bytes, s.keys = int(p.Server), s.bytes+bytes, s.keys+1
				continue
			}
			out[l] = append(out[l], part{l, int(p.Server), bytes, 1})
		}
	}
	for _, s := range small {
		if s.keys > 0 {
			out[0] = append(out[0], s)
		}
	}
	return out, nil
}

// shardsOf are the shards of all keys of a layer.
func shardsOf(layer []*wire.KeyPlan) (all []wire.ShardPlace) {
	for _, k := range layer {
		all = append(all, k.Shards...)
	}
	return all
}

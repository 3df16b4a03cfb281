package main

import "github.com/paragon-train/paragon/bench/costs"

// A group is workers of one host that do the same: they compute, and exchange one by one or as a
// sum. With folding it stands for several hosts.
type group struct {
	s     *simulation
	host  *host
	index int

	// count is the number of its workers.
	count int

	// own is the store of a worker; those of the others do the same.
	own process

	// leaders has a process for each worker, where one adds up for the others.
	leaders []*process

	step int

	// have counts, for each layer, the shards whose values of the step before are there.
	have []int

	// next is the layer that the forward pass comes to.
	next int

	// left is the number of shards whose new values are still to come.
	left int

	// awake says that the forward pass waits for nothing.
	awake bool

	// ends are the times at which the steps ended.
	ends []float64
}

// forward goes on with the forward pass: a layer begins when its new values are there. If they are
// not, arrive goes on.
func (g *group) forward() {
	layers := g.s.c.model.layers
	if g.next == len(layers) {
		for _, shards := range g.s.shards {
			g.left += len(shards)
		}
		g.backward(len(layers) - 1)
		return
	}
	if g.have[g.next] < len(g.s.shards[g.next]) {
		g.awake = false
		return
	}
	g.awake = true
	l := g.next
	g.next++
	g.compute(layers[l].forward, g.forward)
}

// compute works on the workers' threads.
func (g *group) compute(seconds float64, f func()) {
	threads := g.s.c.threads
	g.host.cores.run(seconds/float64(threads), g.count*threads, f)
}

// backward goes through layer l and those before it; each layer's gradients are pushed at once.
func (g *group) backward(l int) {
	if l < 0 {
		g.step++
		g.next = 0
		if g.step < g.s.c.rounds {
			g.forward()
		}
		return
	}
	g.compute(g.s.c.model.layers[l].backward, func() {
		g.have[l] = 0
		for _, x := range g.s.shards[l] {
			g.push(x, g.step+1)
		}
		g.backward(l - 1)
	})
}

// push sends the gradient of a shard: the sum of the group's workers, or each worker's.
func (g *group) push(x *shard, round int) {
	s, c := g.s, g.s.c
	t := s.between(g.host, x.host)
	wire, far := x.pushed(c), g.host.far
	encode := c.costs.Encode[c.push].Of(0, x.bytes, far)
	send := func(t costs.Transport, messages float64, workers int) float64 {
		return encode + max(0, t.PushWorker.Of(messages, wire, far)+min(0, x.further(t, workers, far)))
	}
	if !c.grouped(x.bytes, g.host == x.host) {
		g.own.run(send(t, x.messages(), g.neighbours()), g.count, func() {
			s.send(g.host, x.host, transfer{x.layer, float64(g.count) * wire, 1, c.fold}, func() { x.receive(g, t, g.count*c.fold, round) })
		})
		return
	}
	near := c.costs.Transports[local]
	g.own.run(send(near, 1, g.count), g.count, func() {
		// The leader is a server to its host's workers; what it sends is encoded once more.
		take, add := s.take(near, x, g.count, true, far)
		g.leader(x).run(take+add+send(t, x.messages(), 1), 1, func() {
			s.send(g.host, x.host, transfer{x.layer, wire, 1, c.fold}, func() { x.receive(g, t, c.fold, round) })
		})
	})
}

// neighbours are the workers of the group's host.
func (g *group) neighbours() int {
	if g.s.c.placement == oneHost {
		return g.s.c.workers
	}
	return g.count
}

func (g *group) leader(x *shard) *process { return g.leaders[x.leader%g.count] }

// answered takes a new value: each worker's own, or one that the leader gives to the others.
func (g *group) answered(x *shard) {
	s, c := g.s, g.s.c
	t := s.between(g.host, x.host)
	wire, far := x.pulled(c), g.host.far
	decode := 0.0
	if c.pull != "none" {
		// Both ways are as fast.
		decode = c.costs.Encode[c.pull].Of(0, x.bytes, far)
	}
	get := func(t costs.Transport, messages float64, workers int) float64 {
		return t.PullWorker.Of(messages, wire, far) + max(0, x.further(t, workers, far))
	}
	if !c.grouped(x.bytes, g.host == x.host) {
		g.own.run(get(t, x.messages(), g.neighbours())+decode, g.count, func() { g.arrive(x) })
		return
	}
	near := c.costs.Transports[local]
	n := float64(g.count)
	g.leader(x).run(get(t, x.messages(), 1)+near.PullServer.Of(n, n*wire, far), 1, func() {
		g.own.run(get(near, 1, g.count)+decode, g.count, func() { g.arrive(x) })
	})
}

// arrive counts a new value, and wakes the forward pass that waits for it. A step has ended when
// all its values are there.
func (g *group) arrive(x *shard) {
	g.have[x.layer]++
	if g.left--; g.left == 0 {
		g.ends = append(g.ends, g.s.now)
	}
	if !g.awake && g.step < g.s.c.rounds && g.next == x.layer && g.have[x.layer] == len(g.s.shards[x.layer]) {
		g.forward()
	}
}

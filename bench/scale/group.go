package main

// A group is workers of one host that do the same: they compute, and exchange one by one or as a sum. With folding it stands for several hosts.
type group struct {
	s       *simulation
	host    *host
	index   int
	count   int        // of its workers
	own     process    // a worker's store, of all alike
	leaders []*process // each worker's, where one has to add up for the others
	step    int
	have    []int // for each layer: shards of the values of the step before that are there
	next    int   // layer that the forward pass comes to
	left    int   // shards whose new values are still to come
	awake   bool  // the forward pass waits for nothing
	ends    []float64
}

// forward goes on with the forward pass: a layer begins when its new values are there.
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
		return // arrive goes on
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
	if !c.grouped(x.bytes, g.host == x.host) {
		g.own.run(encode+t.PushWorker.Of(x.messages(), wire, far), g.count, func() {
			s.send(g.host, x.host, x.layer, float64(g.count)*wire, 1, c.fold, func() { x.receive(g, t, g.count*c.fold, round) })
		})
		return
	}
	near := c.costs.Transports[local]
	members := float64(g.count - 1)
	g.own.run(encode+near.PushWorker.Of(1, wire, far), g.count, func() {
		// The leader takes its members' and its own, and adds up; what it sends is encoded once more.
		work := near.PushServer.Of(members, members*wire, far) + c.costs.Copy.Of(0, x.bytes, far) + s.add(near, x, g.count, true, far) +
			encode + t.PushWorker.Of(x.messages(), wire, far)
		g.leader(x).run(work, 1, func() {
			s.send(g.host, x.host, x.layer, wire, 1, c.fold, func() { x.receive(g, t, c.fold, round) })
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
		decode = c.costs.Encode[c.pull].Of(0, x.bytes, far) // as fast either way
	}
	if !c.grouped(x.bytes, g.host == x.host) {
		g.own.run(t.PullWorker.Of(x.messages(), wire, far)+x.further(t, g.neighbours(), far)+decode, g.count, func() { g.arrive(x) })
		return
	}
	near := c.costs.Transports[local]
	members := float64(g.count - 1)
	g.leader(x).run(t.PullWorker.Of(x.messages(), wire, far)+near.PullServer.Of(members, members*wire, far), 1, func() {
		g.own.run(near.PullWorker.Of(1, wire, far)+x.further(near, g.count, far)+decode, g.count, func() { g.arrive(x) })
	})
}

// arrive counts a new value, and wakes the forward pass that waits for it. A step has ended when all its values are there.
func (g *group) arrive(x *shard) {
	g.have[x.layer]++
	if g.left--; g.left == 0 {
		g.ends = append(g.ends, g.s.now)
	}
	if !g.awake && g.step < g.s.c.rounds && g.next == x.layer && g.have[x.layer] == len(g.s.shards[x.layer]) {
		g.forward()
	}
}

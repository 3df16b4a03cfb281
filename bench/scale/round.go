package main

// A host has cores and a link.
type host struct {
	cores    cores
	up, down port
}

// A worker computes and exchanges; with folding it stands for several that do the same.
type worker struct {
	s     *simulation
	host  *host
	group int
	step  int
	have  []int // for each layer: shards of the values of the step before that are there
	next  int   // layer that the forward pass comes to
	left  int   // shards whose new values are still to come
	awake bool  // the forward pass waits for nothing
	ends  []float64
}

// A shard is one on a server, with its open round.
type shard struct {
	layer   int
	bytes   float64
	host    *host
	arrived []int // rounds of each worker that are there
	folded  int   // workers whose contribution is in the sum
	round   int
	busy    bool // someone adds to the sum or updates
}

// A simulation is one run of a cluster.
type simulation struct {
	clock
	c       *cluster
	workers []*worker
	shards  [][]*shard // by layer
	links   []*host
}

// A result is what a simulation tells.
type result struct {
	round        float64 // seconds from one step's end to the next, after the first
	cpu          float64 // seconds on all cores in a round
	workerBusy   float64 // share of the busiest worker's host's cores
	serverBusy   float64 // the same of the busiest host with servers
	linkBusy     float64 // share of the time that the busiest direction of a link is used
	simulatedFor uint64  // events
}

// simulate runs the cluster's rounds.
func simulate(c *cluster) (result, error) {
	if err := c.validate(); err != nil {
		return result{}, err
	}
	plan, err := c.plan()
	if err != nil {
		return result{}, err
	}
	s := &simulation{c: c}
	newHost := func() *host {
		h := &host{cores: cores{clock: &s.clock, free: c.cores}, up: port{bytesPerSecond: c.link}, down: port{bytesPerSecond: c.link}}
		s.links = append(s.links, h)
		return h
	}
	groups := c.workers / c.fold
	var one *host
	if c.placement == oneHost {
		one = newHost()
	}
	var serverHosts []*host
	for g := range groups {
		h := one
		if h == nil {
			h = newHost()
		}
		s.workers = append(s.workers, &worker{s: s, host: h, group: g, have: make([]int, len(c.model.layers))})
	}
	for i := range c.servers {
		switch c.placement {
		case oneHost:
			serverHosts = append(serverHosts, one)
		case shared:
			serverHosts = append(serverHosts, s.workers[i%groups].host)
		default:
			serverHosts = append(serverHosts, newHost())
		}
	}
	for l, keys := range plan {
		s.shards = append(s.shards, nil)
		for _, k := range keys {
			for _, p := range k.Shards {
				s.shards[l] = append(s.shards[l], &shard{layer: l, bytes: 4 * float64(p.Length), host: serverHosts[p.Server], arrived: make([]int, groups)})
			}
		}
	}
	for _, w := range s.workers {
		for l := range w.have {
			w.have[l] = len(s.shards[l]) // the first step begins with the first values
		}
		s.at(0, w.forward)
	}
	s.run()
	first, last := 0.0, 0.0
	for _, w := range s.workers {
		first, last = max(first, w.ends[0]), max(last, w.ends[c.rounds-1])
	}
	r := result{round: (last - first) / float64(c.rounds-1), simulatedFor: s.done}
	for _, w := range s.workers {
		r.workerBusy = max(r.workerBusy, w.host.cores.busy/s.now/float64(c.cores))
	}
	for _, h := range serverHosts {
		r.serverBusy = max(r.serverBusy, h.cores.busy/s.now/float64(c.cores))
	}
	for _, h := range s.links {
		r.cpu += h.cores.busy / float64(c.rounds)
		r.linkBusy = max(r.linkBusy, h.up.busy/s.now, h.down.busy/s.now)
	}
	return r, nil
}

// forward goes on with the forward pass: a layer begins when its new values are there.
func (w *worker) forward() {
	layers := w.s.c.model.layers
	if w.next == len(layers) {
		for _, shards := range w.s.shards {
			w.left += len(shards)
		}
		w.backward(len(layers) - 1)
		return
	}
	if w.have[w.next] < len(w.s.shards[w.next]) {
		w.awake = false
		return // arrive goes on
	}
	w.awake = true
	l := w.next
	w.next++
	w.compute(layers[l].forward, w.forward)
}

// compute works on the worker's threads.
func (w *worker) compute(seconds float64, f func()) {
	w.host.cores.split(seconds, w.s.c.threads, f)
}

// backward goes through layer l and those before it; each layer's gradients are pushed at once.
func (w *worker) backward(l int) {
	if l < 0 {
		w.step++
		w.next = 0
		if w.step < w.s.c.rounds {
			w.forward()
		}
		return
	}
	w.compute(w.s.c.model.layers[l].backward, func() {
		w.have[l] = 0
		for _, x := range w.s.shards[l] {
			w.push(x, w.step+1)
		}
		w.backward(l - 1)
	})
}

// push sends the gradient of a shard.
func (w *worker) push(x *shard, round int) {
	t := w.s.c.costs.Transports[w.s.c.transport]
	fold := w.s.c.fold
	w.host.cores.run(t.PushWorker.Of(1, x.bytes), func() {
		w.s.send(w.host, x.host, x.bytes, 1, fold, func() {
			x.host.cores.split(float64(fold)*t.PushServer.Of(1, x.bytes), min(fold, w.s.c.cores), func() {
				x.arrived[w.group] = round
				w.s.fold(x)
			})
		})
	})
}

// send moves messages from so many hosts like this one to so many like that one, and calls f when the last is there.
func (s *simulation) send(from, to *host, bytes float64, senders, receivers int, f func()) {
	if from == to {
		if s.c.placement == oneHost && s.c.link > 0 {
			_, end := from.up.take(s.now, bytes)
			s.at(end, f)
			return
		}
		f()
		return
	}
	// One of the two is folded: its own port takes one message, the other's all of them.
	upBytes, downBytes := bytes, bytes
	if senders == 1 {
		downBytes *= float64(receivers)
	} else {
		upBytes *= float64(senders)
	}
	begin, end := from.up.take(s.now, upBytes)
	if senders > 1 {
		begin = end - bytes/from.up.bytesPerSecond // the last of them
	}
	s.at(begin+s.c.latency, func() {
		_, there := to.down.take(s.now, downBytes)
		s.at(max(there, end+s.c.latency), f)
	})
}

// fold adds the contributions that are next in rank order to the sum, and closes the round after the last.
func (s *simulation) fold(x *shard) {
	if x.busy {
		return
	}
	from := x.folded
	for x.folded < len(x.arrived) && x.arrived[x.folded] > x.round {
		x.folded++
	}
	if x.folded == from {
		return
	}
	added := (x.folded - from) * s.c.fold
	if from == 0 {
		added-- // the first one's memory becomes the sum
	}
	x.busy = true
	x.host.cores.run(float64(added)*s.c.costs.Sum*x.bytes, func() {
		if x.folded < len(x.arrived) {
			x.busy = false
			s.fold(x)
			return
		}
		x.host.cores.run(s.c.costs.Update[s.c.rule]*x.bytes, func() {
			x.folded = 0
			x.round++
			x.busy = false
			for _, w := range s.workers {
				s.answer(x, w)
			}
			s.fold(x)
		})
	})
}

// answer sends the new value to a worker.
func (s *simulation) answer(x *shard, w *worker) {
	t := s.c.costs.Transports[s.c.transport]
	fold := s.c.fold
	x.host.cores.split(float64(fold)*t.PullServer.Of(1, x.bytes), min(fold, s.c.cores), func() {
		s.send(x.host, w.host, x.bytes, fold, 1, func() {
			w.host.cores.run(t.PullWorker.Of(1, x.bytes), func() {
				w.arrive(x)
			})
		})
	})
}

// arrive counts a new value, and wakes the forward pass that waits for it. A step has ended when all its values are there.
func (w *worker) arrive(x *shard) {
	w.have[x.layer]++
	if w.left--; w.left == 0 {
		w.ends = append(w.ends, w.s.now)
	}
	if !w.awake && w.step < w.s.c.rounds && w.next == x.layer && w.have[x.layer] == len(w.s.shards[x.layer]) {
		w.forward()
	}
}

package main

import "github.com/paragon-train/paragon/bench/costs"

// A host has cores and a link.
type host struct {
	cores    cores
	up, down port
	far      float64 // share of what its processes touch that is not in the last-level cache
}

// A simulation is one run of a cluster.
type simulation struct {
	clock
	c      *cluster
	groups []*group
	shards [][]*shard // by layer
	hosts  []*host
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
	parts, err := c.parts()
	if err != nil {
		return result{}, err
	}
	s := &simulation{c: c}
	serverHosts := s.place(parts)
	for _, g := range s.groups {
		for l := range g.have {
			g.have[l] = len(s.shards[l]) // the first step begins with the first values
		}
		s.at(0, g.forward)
	}
	s.run()
	first, last := 0.0, 0.0
	for _, g := range s.groups {
		first, last = max(first, g.ends[0]), max(last, g.ends[c.rounds-1])
	}
	r := result{round: (last - first) / float64(c.rounds-1), simulatedFor: s.done}
	for _, g := range s.groups {
		r.workerBusy = max(r.workerBusy, g.host.cores.busy/s.now/float64(c.cores))
	}
	for _, h := range serverHosts {
		r.serverBusy = max(r.serverBusy, h.cores.busy/s.now/float64(c.cores))
	}
	for _, h := range s.hosts {
		r.cpu += h.cores.busy / float64(c.rounds)
		r.linkBusy = max(r.linkBusy, h.up.busy/s.now, h.down.busy/s.now)
	}
	return r, nil
}

// place makes hosts, workers and servers. It returns the servers' hosts.
func (s *simulation) place(parts [][]part) (serverHosts []*host) {
	c := s.c
	newHost := func() *host {
		h := &host{cores: cores{clock: &s.clock, n: c.cores}, up: port{clock: &s.clock, bytesPerSecond: c.link}, down: port{clock: &s.clock, bytesPerSecond: c.link}}
		s.hosts = append(s.hosts, h)
		return h
	}
	var one *host
	groups, count := c.hosts()/c.fold, c.perHost
	if c.placement == oneHost {
		one, groups, count = newHost(), c.workers, 1 // each worker by itself
	}
	for i := range groups {
		h := one
		if h == nil {
			h = newHost()
		}
		g := &group{s: s, host: h, index: i, count: count, have: make([]int, len(c.model.layers))}
		g.own = process{cores: &h.cores, lanes: min(c.cores, c.servers)} // a server's connection is read and written by one goroutine each
		for range count {
			g.leaders = append(g.leaders, &process{cores: &h.cores, lanes: 1})
		}
		s.groups = append(s.groups, g)
	}
	servers := make([]*process, c.servers)
	for i := range c.servers {
		h := one
		switch c.placement {
		case shared:
			h = s.groups[i%groups].host
		case ownHosts:
			h = newHost()
		}
		serverHosts = append(serverHosts, h)
		servers[i] = &process{cores: &h.cores, lanes: c.cores}
	}
	sets := map[*host]float64{} // bytes that the processes of a host pass over in a round
	total := 0.0
	for l, layer := range parts {
		s.shards = append(s.shards, nil)
		for i, p := range layer {
			x := &shard{part: p, host: serverHosts[p.server], server: servers[p.server], leader: 7*l + i, arrived: make([]int, groups)}
			s.shards[l] = append(s.shards[l], x)
			total += p.bytes
			sets[x.host] += p.bytes // the value
			for _, g := range s.groups {
				n := float64(g.count * c.fold)
				if c.grouped(p.bytes, g.host == x.host) {
					n = float64(c.fold)
					sets[g.host] += p.bytes // the group's sum
				}
				sets[x.host] += n * p.bytes * ratios[c.push] // contributions
			}
		}
	}
	for _, g := range s.groups {
		sets[g.host] += 2 * total * float64(g.count) // gradients, and where values come to
	}
	for h, set := range sets {
		h.far = costs.Far(set, c.llc)
	}
	return serverHosts
}

// send moves messages from so many hosts like this one to so many like that one, and calls f when
// the last is there. bytes are those between two hosts.
func (s *simulation) send(from, to *host, layer int, bytes float64, senders, receivers int, f func()) {
	if from == to {
		if s.c.placement == oneHost && s.c.link > 0 {
			from.up.take(layer, bytes, func(_, end float64) { s.at(end, f) })
			return
		}
		f()
		return
	}
	// One of the two is folded: its own port takes the messages of one host, the other's all of
	// them.
	upBytes, downBytes := bytes, bytes
	if senders == 1 {
		downBytes *= float64(receivers)
	} else {
		upBytes *= float64(senders)
	}
	from.up.take(layer, upBytes, func(begin, end float64) {
		if senders > 1 {
			begin = end - bytes/from.up.bytesPerSecond // the last of them
		}
		s.at(begin+s.c.latency, func() {
			to.down.take(layer, downBytes, func(_, there float64) {
				s.at(max(there, end+s.c.latency), f)
			})
		})
	})
}

package main

// A host has cores and a link.
type host struct {
	cores    cores
	up, down port

	// far is the share of what its processes touch that is not in the last-level cache.
	far float64
}

// A simulation is one run of a cluster.
type simulation struct {
	clock
	c      *cluster
	groups []*group

	// shards are in the order of the layers.
	shards [][]*shard
	hosts  []*host
}

// A result is what a simulation tells.
type result struct {
	// round is the time from one step's end to the next, after the first, in seconds.
	round float64

	// cpu is the time of all cores in a round, in seconds.
	cpu float64

	// workerBusy and serverBusy are the shares of the cores of the busiest host with workers, and
	// with servers.
	workerBusy, serverBusy float64

	// linkBusy is the share of the time that the busiest direction of a link is used.
	linkBusy float64

	// simulatedFor is the number of events.
	simulatedFor uint64
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
			// The first step begins with the first values.
			g.have[l] = len(s.shards[l])
		}
		s.at(0, g.forward)
	}
	s.run()
	return s.result(serverHosts), nil
}

// result sums up a run that has come to its end.
func (s *simulation) result(serverHosts []*host) result {
	rounds, cores := float64(s.c.rounds), float64(s.c.cores)
	first, last := 0.0, 0.0
	for _, g := range s.groups {
		first, last = max(first, g.ends[0]), max(last, g.ends[s.c.rounds-1])
	}
	r := result{round: (last - first) / (rounds - 1), simulatedFor: s.done}
	for _, g := range s.groups {
		r.workerBusy = max(r.workerBusy, g.host.cores.busy/s.now/cores)
	}
	for _, h := range serverHosts {
		r.serverBusy = max(r.serverBusy, h.cores.busy/s.now/cores)
	}
	for _, h := range s.hosts {
		r.cpu += h.cores.busy / rounds
		r.linkBusy = max(r.linkBusy, h.up.busy/s.now, h.down.busy/s.now)
	}
	return r
}

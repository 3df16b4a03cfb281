package main

import "github.com/paragon-train/paragon/bench/costs"

// place makes hosts, workers, servers and shards. It returns the servers' hosts.
func (s *simulation) place(parts [][]part) []*host {
	var one *host
	if s.c.placement == oneHost {
		one = s.newHost()
	}
	s.placeGroups(one)
	servers, serverHosts := s.placeServers(one)
	for l, layer := range parts {
		s.shards = append(s.shards, nil)
		for i, p := range layer {
			s.shards[l] = append(s.shards[l], &shard{
				part: p, host: serverHosts[p.server], server: servers[p.server], leader: 7*l + i, arrived: make([]int, len(s.groups)),
			})
		}
	}
	s.fillCaches()
	return serverHosts
}

func (s *simulation) newHost() *host {
	link := port{clock: &s.clock, bytesPerSecond: s.c.link}
	h := &host{cores: cores{clock: &s.clock, n: s.c.cores}, up: link, down: link}
	s.hosts = append(s.hosts, h)
	return h
}

// placeGroups gives each group a host. On one host for all, each worker is a group by itself.
func (s *simulation) placeGroups(one *host) {
	c := s.c
	groups, count := c.hosts()/c.fold, c.perHost
	if one != nil {
		groups, count = c.workers, 1
	}
	for i := range groups {
		h := one
		if h == nil {
			h = s.newHost()
		}
		g := &group{s: s, host: h, index: i, count: count, have: make([]int, len(c.model.layers))}

		// A server's connection is read and written by one goroutine each.
		g.own = process{cores: &h.cores, lanes: min(c.cores, c.servers)}
		for range count {
			g.leaders = append(g.leaders, &process{cores: &h.cores, lanes: 1})
		}
		s.groups = append(s.groups, g)
	}
}

// placeServers gives each server a process on its host, which works on all cores.
func (s *simulation) placeServers(one *host) (servers []*process, hosts []*host) {
	for i := range s.c.servers {
		h := one
		switch s.c.placement {
		case shared:
			h = s.groups[i%len(s.groups)].host
		case ownHosts:
			h = s.newHost()
		}
		hosts = append(hosts, h)
		servers = append(servers, &process{cores: &h.cores, lanes: s.c.cores})
	}
	return servers, hosts
}

// fillCaches adds up the bytes that the processes of each host pass over in a round, which say how
// much of them comes from beyond the cache: a server its values and contributions, a leader the sum
// of its group, a worker its gradients and the places for new values.
func (s *simulation) fillCaches() {
	sets := map[*host]float64{}
	total := 0.0
	for _, layer := range s.shards {
		for _, x := range layer {
			total += x.bytes
			sets[x.host] += x.bytes
			for _, g := range s.groups {
				sets[x.host] += float64(g.contributions(x)) * x.bytes * ratios[s.c.push]
				if s.c.grouped(x.bytes, g.host == x.host) {
					sets[g.host] += x.bytes
				}
			}
		}
	}
	for _, g := range s.groups {
		sets[g.host] += 2 * total * float64(g.count)
	}
	for h, set := range sets {
		h.far = costs.Far(set, s.c.llc)
	}
}

package main

import "github.com/paragon-train/paragon/bench/costs"

// A shard is one on a server, with its open round; or all small keys of a server, whose messages
// are one.
type shard struct {
	part
	host   *host
	server *process

	// leader says which of a group's workers adds up for the others.
	leader int

	// round is the open one.
	round int

	// arrived has, for each group, the number of rounds whose contributions are there.
	arrived []int

	// folded is the number of groups whose contribution to the open round is in the sum: they are
	// added in rank order.
	folded int

	// busy says that someone adds to the sum or updates.
	busy bool
}

// messages are what its message costs, of one with one key.
func (x *shard) messages() float64 { return 1 + keyShare*float64(x.keys-1) }

// pushed and pulled are its bytes on a link.
func (x *shard) pushed(c *cluster) float64 {
	return x.bytes*ratios[c.push] + pushHead*float64(x.keys-1)
}

func (x *shard) pulled(c *cluster) float64 {
	return x.bytes*ratios[c.pull] + pullHead*float64(x.keys-1)
}

// between is the transport from one host to another, or within one.
func (s *simulation) between(a, b *host) costs.Transport {
	if a == b && s.c.placement != oneHost {
		return s.c.costs.Transports[local]
	}
	return s.c.costs.Transports[s.c.transport]
}

// take is the time in which so many contributions come to a server, or to the leader of a group, of
// which one may be the first of its round; add is that in which they are added up, one after the
// other. Where further contributions take less than the first, taking them does.
func (s *simulation) take(t costs.Transport, x *shard, contributions int, first bool, far float64) (take, add float64) {
	c := s.c.costs
	n := float64(contributions)
	take = n * t.PushServer.Of(x.messages(), x.pushed(s.c), far)
	if s.c.push != "none" {
		add = n * c.Decode[s.c.push].Of(0, x.bytes, far)
	}
	if first {
		n--
	}
	further := n * t.FurtherServer.Of(x.messages(), x.bytes, far)
	if s.c.push != "none" {
		// Decoding adds.
		further -= n * c.Sum.Of(0, x.bytes, far)
	}
	if further < 0 {
		return max(0, take+further), add
	}
	return take, add + further
}

// further is what each of several workers of a host takes more or less for a round than one alone.
func (x *shard) further(t costs.Transport, workers int, far float64) float64 {
	n := float64(workers)
	return (n - 1) / n * t.FurtherWorker.Of(x.messages(), x.bytes, far)
}

// receive takes so many contributions of a group.
func (x *shard) receive(g *group, t costs.Transport, contributions, round int) {
	s := g.s
	work, _ := s.take(t, x, contributions, g.index == 0, x.host.far)
	x.server.split(work, min(contributions, s.c.cores), func() {
		x.arrived[g.index] = round
		s.fold(x)
	})
}

// contributions are those of a group that come to a shard.
func (g *group) contributions(x *shard) int {
	if g.s.c.grouped(x.bytes, g.host == x.host) {
		return g.s.c.fold
	}
	return g.count * g.s.c.fold
}

// fold adds the contributions that are next in rank order to the sum, and closes the round after
// the last.
func (s *simulation) fold(x *shard) {
	if x.busy {
		return
	}
	from, added := x.folded, 0
	for x.folded < len(x.arrived) && x.arrived[x.folded] > x.round {
		added += s.groups[x.folded].contributions(x)
		x.folded++
	}
	if x.folded == from {
		return
	}
	x.busy = true
	_, work := s.take(s.between(s.groups[from].host, x.host), x, added, from == 0, x.host.far)
	x.server.run(work, 1, func() {
		if x.folded < len(x.arrived) {
			x.busy = false
			s.fold(x)
			return
		}
		update := s.c.costs.Update[s.c.rule].Of(0, x.bytes, x.host.far)
		if s.c.pull != "none" {
			update += s.c.costs.Encode[s.c.pull].Of(0, x.bytes, x.host.far)
		}
		x.server.run(update, 1, func() {
			x.folded = 0
			x.round++
			x.busy = false
			for _, g := range s.groups {
				s.answer(x, g)
			}
			s.fold(x)
		})
	})
}

// answer sends the new value to a group.
func (s *simulation) answer(x *shard, g *group) {
	t := s.between(x.host, g.host)

	// So many answers go to each host, and so many to the hosts that the group stands for.
	each := g.contributions(x) / s.c.fold
	n := each * s.c.fold
	x.server.split(t.PullServer.Of(float64(n)*x.messages(), float64(n)*x.pulled(s.c), x.host.far), min(n, s.c.cores), func() {
		s.send(x.host, g.host, transfer{x.layer, float64(each) * x.pulled(s.c), s.c.fold, 1}, func() { g.answered(x) })
	})
}

package hosts

import "fmt"

// A Placement says which host each rank runs on.
type Placement struct {
	// Workers are by rank.
	Workers []Host

	// Servers are by rank.
	Servers []Host
}

// Place assigns workers and servers to hosts, ranks in the order of the hosts.
//
// Workers fill the slots host by host (a host without slots= has one). Workers beyond the last slot
// are assigned round-robin to the hosts without slots=. If every host has slots=, that is an error,
// because slots are a limit. Server i is on host i mod H. The same arguments give the same
// placement, so ranks keep their hosts when a job is started again.
func Place(all []Host, workers, servers int) (Placement, error) {
	if len(all) == 0 {
		return Placement{}, fmt.Errorf("place %d workers and %d servers: no host", workers, servers)
	}
	var p Placement
	var open []Host // hosts without a limit
	slots := 0
	for _, h := range all {
		n := max(h.Slots, 1)
		slots += n
		for range min(n, workers-len(p.Workers)) {
			p.Workers = append(p.Workers, h)
		}
		if h.Slots == 0 {
			open = append(open, h)
		}
	}
	if len(p.Workers) < workers && len(open) == 0 {
		return Placement{}, fmt.Errorf("%d workers need %d slots, the hosts have %d; lower -n, raise slots= or add hosts",
			workers, workers, slots)
	}
	for i := 0; len(p.Workers) < workers; i++ {
		p.Workers = append(p.Workers, open[i%len(open)])
	}
	for i := range servers {
		p.Servers = append(p.Servers, all[i%len(all)])
	}
	return p, nil
}

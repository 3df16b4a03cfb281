package job

import (
	"github.com/paragon-train/paragon/internal/hosts/hosts"
)

// A place is a host on which workers of the job may run.
type place struct {
	hosts.Host      // Slots: workers that may run there; 0: any number
	listed     bool // in the hosts file: it stays in the roster when it is removed
	withdrawn  bool // it was removed by name: no worker is started there until it is added, or asked for by name
}

// makeRoster makes the list of the hosts that the job may use: those of its hosts file.
func (c *core) makeRoster() {
	for _, h := range hosts.Merge(c.set.Hosts) {
		c.roster = append(c.roster, &place{Host: h, listed: true})
	}
}

// placeOf is a host in the roster; nil: it is not there.
func (c *core) placeOf(h hosts.Host) *place {
	for _, p := range c.roster {
		if p.Same(h) {
			return p
		}
	}
	return nil
}

// enrol takes a host into the roster that was added by name.
func (c *core) enrol(h hosts.Host) {
	p := c.placeOf(h)
	if p == nil {
		h.Slots = max(h.Slots, 1)
		p = &place{Host: h}
		c.roster = append(c.roster, p)
	}
	if p.withdrawn = false; p.Slots > 0 {
		p.Slots = max(p.Slots, h.Slots)
	}
}

// withdraw takes a host out of the roster that was removed by name.
func (c *core) withdraw(h hosts.Host) {
	for i, p := range c.roster {
		switch {
		case !p.Same(h):
		case p.listed:
			p.withdrawn = true
		default:
			c.roster = append(c.roster[:i:i], c.roster[i+1:]...)
			return
		}
	}
}

// slots is how many workers a host without slots= has before the others' slots are full.
func (p *place) slots() int { return max(p.Slots, 1) }

package job

import (
	"errors"
	"fmt"
	"slices"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/joblog"
)

// A wantedServer is a server that was asked for and has not joined.
type wantedServer struct {
	node *Node
	err  error // why the work for it ends; nil: it does not
	idle bool  // nothing is under way for it: its process runs, or will never do
}

// errNotWanted ends the work for a server that is no longer wanted.
var errNotWanted = errors.New("the server is no longer wanted")

// serverEvent carries out what the scheduler has decided about a server that comes or goes as
// asked.
func (c *core) serverEvent(e control.Event) {
	rank := int(e.Rank)
	name := fmt.Sprintf("server %d", rank)
	if e.Host != "" {
		name += " on " + e.Host
	}
	changed := joblog.ServerChanged.With("action", e.Action, "node_rank", rank, "node_host", e.Host, "reason", e.Reason)
	switch e.Action {
	case control.ServerQueued:
		if c.stage == running {
			c.addServer(e)
		}
	case control.ServerAdded:
		delete(c.wanted, rank)
		c.info(name+" joined the job; shards move to it", changed)
	case control.ServerRemoved:
		c.info(name+" was removed from the job; its shards are at other servers", changed)
		for _, n := range c.nodes {
			if n.Role == roleServer && n.Rank == rank && n.ended && n.Exit.OK() && n.fate.code == "" {
				n.fate = fate{code: control.FateRemoved} // it ended before this news came
			}
		}
		c.dismissServer(rank, fate{control.FateRemoved, "had to be stopped"})
	case control.ServerFailed:
		c.error(fmt.Sprintf("%s could not be added: %s; the job goes on without it", name, e.Reason), changed)
		c.dismissServer(rank, fate{control.FateRefused, "could not be added: " + e.Reason})
		c.serverNotAdded(e)
	}
}

// dismissServer ends the server of a rank: one that was in the job ends by itself.
func (c *core) dismissServer(rank int, why fate) {
	if s := c.wanted[rank]; s != nil {
		c.cancelServer(s, errNotWanted)
		delete(c.wanted, rank)
	}
	for _, n := range c.nodes {
		if n.Role == roleServer && n.Rank == rank && !n.ended {
			n.leaving = true
			c.evict(n, why, leaveTime)
		}
	}
}

// serverHost chooses where one more server runs: of the hosts that the job began with servers on,
// the one with the fewest; if those are being taken away, of all that may run servers. False: all
// are.
func (c *core) serverHost() (best hosts.Host, ok bool) {
	if best, ok = c.fewestServers(c.set.Servers); ok {
		return best, true
	}
	return c.fewestServers(slices.DeleteFunc(hosts.Merge(c.set.ServerHosts), func(h hosts.Host) bool {
		p := c.placeOf(h)
		return p != nil && p.withdrawn
	}))
}

// fewestServers is the host with the fewest servers of those that stay.
func (c *core) fewestServers(of []hosts.Host) (best hosts.Host, ok bool) {
	least := -1
	for _, h := range of {
		if c.host(h).away || c.departing(h) {
			continue
		}
		count := 0
		for _, n := range c.nodes {
			if n.Role == roleServer && !n.ended && !n.leaving && n.host.Same(h) {
				count++
			}
		}
		for _, s := range c.wanted {
			if s.node.host.Same(h) && !slices.Contains(c.nodes, s.node) {
				count++
			}
		}
		if least < 0 || count < least {
			best, least = h, count
		}
	}
	return best, least >= 0
}

// addServer starts the server that the scheduler wants.
func (c *core) addServer(e control.Event) {
	rank := int(e.Rank)
	h, ok := c.serverHost()
	switch {
	case e.Host != "":
		var err error
		if h, err = hosts.ParseHost(e.Host); err != nil {
			c.serverFailed(rank, err)
			return
		}
		if c.departing(h) {
			c.serverFailed(rank, errTakenAway)
			return
		}
	case !ok:
		c.serverFailed(rank, errors.New("all hosts of the job are being taken away"))
		return
	}
	n := c.newNode(roleServer, rank, h)
	s := &wantedServer{node: n}
	n.joining, n.goal = true, s
	c.wanted[rank] = s
	c.after(c.set.JoinTimeout, serverLimit{s})
	c.reach(h, s)
}

// serverLimit ends what takes too long.
type serverLimit struct{ *wantedServer }

func (l serverLimit) run(c *core) {
	c.cancelServer(l.wantedServer, fmt.Errorf("gave up after %s (--join-timeout)", c.set.JoinTimeout))
}

// cancelServer ends the work that starts a server.
func (c *core) cancelServer(s *wantedServer, why error) {
	if s.idle || s.err != nil {
		return
	}
	s.err = why
	for _, id := range sortedKeys(c.connections) {
		if c.connections[id].goal == any(s) {
			c.do(cancelCall{id, why.Error()})
		}
	}
	if c.launching[s.node.process] != nil {
		c.do(cancelStart{s.node.process, why.Error()})
	}
}

func (c *core) serverHostReached(s *wantedServer, m *machine, err error) {
	if s.err != nil {
		err = s.err
	}
	if err == nil && c.departing(s.node.host) {
		err = errTakenAway
	}
	if err != nil || c.stage != running {
		c.serverOver(s, err)
		return
	}
	c.info(fmt.Sprintf("starting server %d on %s", s.node.Rank, s.node.Host))
	s.node.machine = m
	c.startNode(s.node)
}

func (c *core) serverLaunched(s *wantedServer, err error) {
	if err == nil && s.err != nil && c.stage == running {
		s.node.leaving = true
		c.evict(s.node, fate{code: control.FateUnneeded}, 0)
	}
	c.serverOver(s, err)
}

// serverOver ends the work for a server; err says why it does not run.
func (c *core) serverOver(s *wantedServer, err error) {
	s.idle = true
	if err != nil && !errors.Is(s.err, errNotWanted) && c.stage == running {
		c.serverFailed(s.node.Rank, err)
	}
}

package scheduler

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A comingServer was asked for and has not registered yet.
type comingServer struct {
	keptServer
	by time.Time // given up if it has not come by then
}

type keptServer struct {
	Rank uint32
	Host string // where it is wanted; empty: where the launcher likes
}

// maxServers bounds the ranks of servers.
const maxServers = 1 << 12

// addServer asks for one more server, which the launcher starts when it gets the event. It gets the
// rank of a removed server, or a new one. It returns why that is not possible.
func (c *Core) addServer(host string) (rank uint32, refusal string) {
	switch {
	case c.phase == wire.PhaseForming:
		return 0, "the job is forming: waiting for " + strings.Join(c.missing(), ", ")
	case c.phase != wire.PhaseRunning:
		return 0, "the job has " + phaseNames[c.phase] + because(c.reason)
	case !c.plan.backups:
		return 0, "servers can be added only where shards have backups: start the job with --backups 1"
	}
	for int(rank) < c.ranks && !c.removedServer(rank) || c.comes(int32(rank)) {
		rank++
	}
	if rank >= maxServers {
		return 0, fmt.Sprintf("the job has had %d servers, the most there may be", rank)
	}
	c.newServers = append(c.newServers, comingServer{keptServer{rank, host}, c.now.Add(c.set.Elastic.JoinTimeout)})
	c.dirty.job = true
	c.serverEvent(control.ServerQueued, host, rank, nil, "")
	return rank, ""
}

// removedServer reports whether the newest server of a rank was removed as requested: it will not
// be started again.
func (c *Core) removedServer(rank uint32) bool {
	n := c.newestServer(rank)
	return n != nil && (n.state == removed || n.state == left) && c.plan.gone[rank]
}

// newestServer is the server that had a rank last, nil if none ever had.
func (c *Core) newestServer(rank uint32) *node {
	for _, n := range slices.Backward(c.nodes) {
		if n.Role == wire.RoleServer && n.Rank == int32(rank) {
			return n
		}
	}
	return nil
}

// comes reports whether a server of that rank was asked for and has not registered.
func (c *Core) comes(rank int32) bool {
	return slices.ContainsFunc(c.newServers, func(x comingServer) bool { return int32(x.Rank) == rank })
}

// serverCame removes a server from those that are asked for, and reports whether it was one.
func (c *Core) serverCame(rank uint32) bool {
	have := len(c.newServers)
	c.newServers = slices.DeleteFunc(c.newServers, func(x comingServer) bool { return x.Rank == rank })
	c.dirty.job = c.dirty.job || len(c.newServers) < have
	return len(c.newServers) < have
}

// growTo adds vacant ranks of servers up to a number.
func (c *Core) growTo(ranks int) {
	if ranks > c.ranks {
		c.ranks, c.dirty.job = ranks, true
		c.plan.grow(ranks)
	}
}

// grow adds vacant ranks of servers.
func (p *planner) grow(ranks int) {
	if len(p.load) >= ranks {
		return
	}
	for len(p.load) < ranks {
		p.load = append(p.load, 0)
		p.gone = append(p.gone, true)
	}
	p.recount()
}

// serverFailed drops a server that was asked for. It returns why that is ignored.
func (c *Core) serverFailed(rank int, reason string) string {
	for _, x := range c.newServers {
		if int(x.Rank) == rank {
			c.serverCame(x.Rank)
			c.serverEvent(control.ServerFailed, x.Host, x.Rank, nil, reason)
			return ""
		}
	}
	return fmt.Sprintf("server %d is not being added", rank)
}

// passServers drops servers that have not registered in time.
func (c *Core) passServers(t time.Time) {
	for _, x := range slices.Clone(c.newServers) {
		if !t.Before(x.by) {
			c.serverFailed(int(x.Rank), fmt.Sprintf("it has not come within %v", c.set.Elastic.JoinTimeout))
		}
	}
}

// serverEvent adds an event of a server that is added or removed; n is nil before it has
// registered.
func (c *Core) serverEvent(action, host string, rank uint32, n *node, reason string) {
	e := control.Event{Action: action, Host: host, Role: roleName(wire.RoleServer), Rank: rank, Reason: reason}
	if n != nil {
		e.PID, e.Process = n.PID, n.process
	}
	c.tellEvent(e)
}

func (c *Core) serverStatus() (list []control.ServerStatus) {
	if !c.plan.backups || c.phase == wire.PhaseForming {
		return nil
	}
	all := c.ranks
	for _, x := range c.newServers {
		all = max(all, int(x.Rank)+1)
	}
	for rank := range all {
		s := control.ServerStatus{Rank: uint32(rank), Status: control.RankLost}
		n := c.newestServer(s.Rank)
		switch {
		case rank < c.ranks && !c.plan.gone[rank]:
			s.Status = control.RankHere
		case c.removedServer(s.Rank):
			s.Status = control.RankRemoved
		}
		if n != nil {
			s.Host = n.Host
		}
		for _, x := range c.newServers {
			if x.Rank == s.Rank {
				s.Status, s.Host = control.RankComing, x.Host
			}
		}
		list = append(list, s)
	}
	for _, k := range c.plan.list {
		for i := range k.plan.Shards {
			s, x := &k.plan.Shards[i], k.backupState(i)
			list[s.Server].Shards++
			list[s.Server].Values += s.Length
			if x.Backup != wire.NoServer {
				list[x.Backup].Backups++
				if x.filling() {
					list[x.Backup].Filling++
				}
			}
		}
	}
	return list[:min(len(list), maxStatusNodes)]
}

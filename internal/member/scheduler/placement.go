package scheduler

import (
	"fmt"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/internal/observe/plural"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// maxPlaces bounds the places in one answer.
const maxPlaces = 40_000

// places answers where the shards of keys are, from one on.
func (p *planner) places(from, placement uint64) *wire.Places {
	m := &wire.Places{Placement: placement, Next: from, Keys: uint64(len(p.keys))}
	for ; m.Next < m.Keys; m.Next++ {
		k := p.list[m.Next]
		if len(m.Places) > 0 && len(m.Places)+len(k.plan.Shards) > maxPlaces {
			return m
		}
		for i := range k.plan.Shards {
			m.Places = append(m.Places, wire.Place{Key: m.Next, Shard: uint32(i), Server: k.plan.Shards[i].Server, Backup: k.backupState(i).Backup})
		}
	}
	m.Next = max(m.Next, m.Keys)
	return m
}

func (c *Core) readPlaces(request uint64, m *wire.ReadPlaces) {
	if n := c.current(request, m.Node, c.generation); n != nil {
		c.answer(request, c.plan.places(m.From, c.placement))
	}
}

// serverOf is the node of the living server of a rank, 0 if there is none.
func (c *Core) serverOf(rank uint32) uint64 {
	for _, n := range c.nodes {
		if n.state == living && n.Role == wire.RoleServer && uint32(n.Rank) == rank {
			return n.Node
		}
	}
	return 0
}

// keepPlaces marks the record of a key's places as changed.
func (c *Core) keepPlaces(keys ...*placed) {
	for _, k := range keys {
		if !k.dirty {
			k.dirty = true
			c.dirty.places = append(c.dirty.places, k)
		}
	}
}

// placedAnew makes a new placement in which these keys have moved. The caller makes the new
// revision.
func (c *Core) placedAnew(keys []*placed) {
	c.placement++
	c.dirty.job = true
	c.keepPlaces(keys...)
	for _, s := range c.lossReports { // what a lost server was sent for open rounds is lost with it
		clear(s.told)
		if c.change.asked {
			c.change.reportsBy = c.now.Add(c.set.Elastic.RejoinTimeout)
		}
	}
}

// moveOn does the next step of moving shards, if there is one.
func (c *Core) moveOn() {
	if c.phase != wire.PhaseRunning || !c.plan.backups {
		return
	}
	if c.unsteady {
		if keys := c.plan.even(); len(keys) > 0 {
			c.placedAnew(keys)
			c.note("placement %d: shards of %s move", c.placement, plural.Of(len(keys), "key")).Event = joblog.Placed.With("placement", c.placement, "keys", len(keys), "generation", c.generation)
			c.changed()
			return
		}
		c.unsteady = c.plan.filling > 0
	}
}

// replaceServer goes on without a server: the backups of its shards become primaries.
func (c *Core) replaceServer(n *node, cause control.Cause) {
	loss := c.loss(n, cause)
	keys, err := c.plan.lose(uint32(n.Rank))
	if err != nil {
		loss.Code, loss.Text = control.NoBackup, err.Error()
		c.fail(loss)
		return
	}
	text := loss.String()
	c.placedAnew(keys)
	c.generation++
	c.note("%s: generation %d, placement %d: backups become primaries of %s", text, c.generation, c.placement, plural.Of(len(keys), "key")).
		Event = joblog.Placed.With("placement", c.placement, "keys", len(keys), "generation", c.generation)
	if n.state != removed {
		c.tellLoss(n, text)
	}
	c.sayBare()
	c.changed()
	c.checkBarriers()
	c.tryCommit()
}

// bare warns that shards should have backups and have none, because only one server is left.
func (c *Core) bare() string {
	if !c.plan.backups || c.phase != wire.PhaseRunning || c.plan.living() != 1 {
		return ""
	}
	for rank, gone := range c.plan.gone {
		if !gone {
			return fmt.Sprintf("server %d is the only one: no shard has a backup, and its loss ends the job; add another one (launch ctl add-server)", rank)
		}
	}
	return ""
}

// sayBare logs that warning once.
func (c *Core) sayBare() {
	text := c.bare()
	if text != "" && !c.saidBare {
		c.warn("%s", text).Event = joblog.NoBackups.With()
	}
	c.saidBare = text != ""
}

// enterServer adds a server that registered while the job runs.
func (c *Core) enterServer(request uint64, m *wire.Register, rank uint32) {
	n := c.newNode(m)
	n.Rank = int32(rank)
	c.keep(n)
	keys := c.plan.enter(rank)
	c.unsteady = true
	c.placedAnew(keys)
	c.note("node %d registered: server %d on %s joins, placement %d: it gets backups of %s", n.Node, rank, n.Host, c.placement, plural.Of(len(keys), "key")).
		Event = joblog.NodeRegistered.Of(n.logged(), "node", n.Node)
	c.registered(request, n)
	if c.serverCame(rank) {
		c.serverEvent(control.ServerAdded, n.Host, rank, n, "")
	}
	c.sayBare()
	c.changed()
	c.moveOn()
}

// vacantServer is the vacant rank that is wanted (-1: the lowest); false: there is none.
func (c *Core) vacantServer(wanted int32) (uint32, bool) {
	for _, rank := range []int32{wanted, -1} {
		for r := range c.plan.gone {
			if c.plan.gone[r] && (rank < 0 || rank == int32(r)) {
				return uint32(r), true
			}
		}
	}
	return 0, false
}

// removeServer removes a living server: the backups of its shards become primaries, and it ends
// without an error. It returns why that is not possible, and whether it may be a moment later.
func (c *Core) removeServer(rank int) (refusal string, again bool) {
	switch {
	case c.phase != wire.PhaseRunning:
		return "the job has " + phaseNames[c.phase] + because(c.reason), false
	case !c.plan.backups:
		return "servers can be removed only where shards have backups: start the job with --backups 1", false
	case rank >= 0 && rank < maxServers && c.comes(int32(rank)):
		c.serverCame(uint32(rank))
		c.serverEvent(control.ServerRemoved, "", uint32(rank), nil, "it was removed before it joined")
		return "", false
	case rank < 0 || rank >= len(c.plan.gone) || c.plan.gone[rank]:
		return fmt.Sprintf("there is no server %d", rank), false
	case c.plan.living() < 2:
		return fmt.Sprintf("server %d is the last one", rank), false
	}
	if name := c.plan.depends(uint32(rank)); name != "" {
		return fmt.Sprintf("server %d has the only complete copy of %s", rank, name), true
	}
	n := c.node(c.serverOf(uint32(rank)))
	n.state, c.unsteady = removed, true
	c.keep(n)
	c.replaceServer(n, control.Cause{Kind: control.CauseRemoved})
	c.serverEvent(control.ServerRemoved, n.Host, uint32(rank), n, "")
	return "", false
}

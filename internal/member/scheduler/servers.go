package scheduler

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// maxServers bounds the ranks of servers.
const maxServers = 1 << 12

// A serverTable knows how many ranks of servers there are, and which servers were asked for and
// have not come. Ranks are never taken away: one whose server was removed or lost is vacant, and
// the next server may get it.
type serverTable struct {
	set *Settings
	// ranks counts the vacant ones, too.
	ranks  int
	coming []comingServer
	dirty  bool
}

// A comingServer was asked for and has not registered yet.
type comingServer struct {
	keptServer
	// by is when it is given up.
	by time.Time
}

type keptServer struct {
	Rank uint32
	// Host is where it is wanted; empty: anywhere.
	Host string
}

func newServerTable(set *Settings) serverTable { return serverTable{set: set, ranks: set.Servers} }

// expect notes that a server was asked for on a host.
func (t *serverTable) expect(out *output, rank uint32, host string) {
	t.coming = append(t.coming, comingServer{keptServer{rank, host}, out.now.Add(t.set.Elastic.JoinTimeout)})
	t.dirty = true
	t.tell(out, control.ServerQueued, host, rank, nil, "")
}

// comes reports whether a server of that rank was asked for and has not registered.
func (t *serverTable) comes(rank int32) bool {
	return slices.ContainsFunc(t.coming, func(x comingServer) bool { return int32(x.Rank) == rank })
}

// removed reports whether the newest server of a rank was removed as requested: it will not be
// started again.
func (t *serverTable) removed(rank uint32, r *roster, p *shardPlacement) bool {
	n := r.newestServer(rank)
	return n != nil && (n.life == removed || n.life == left) && p.isVacant(int(rank))
}

// free is the rank for one more server: that of a removed server, or a new one.
func (t *serverTable) free(r *roster, p *shardPlacement) (rank uint32) {
	for int(rank) < t.ranks && !t.removed(rank, r, p) || t.comes(int32(rank)) {
		rank++
	}
	return rank
}

// status is the ranks of servers as a status has them, at most so many as one may have. nil:
// servers do not come and go.
func (t *serverTable) status(r *roster, p *shardPlacement, job *jobState) (list []control.ServerStatus) {
	if !p.plan.backups || job.phase == wire.PhaseForming {
		return nil
	}
	all := t.ranks
	for _, x := range t.coming {
		all = max(all, int(x.Rank)+1)
	}
	for rank := range all {
		s := control.ServerStatus{Rank: uint32(rank), Status: control.RankLost}
		switch {
		case rank < t.ranks && !p.isVacant(rank):
			s.Status = control.RankHere
		case t.removed(s.Rank, r, p):
			s.Status = control.RankRemoved
		}
		if n := r.newestServer(s.Rank); n != nil {
			s.Host = n.Host
		}
		for _, x := range t.coming {
			if x.Rank == s.Rank {
				s.Status, s.Host = control.RankComing, x.Host
			}
		}
		list = append(list, s)
	}
	p.holdings(list)
	return list[:min(len(list), maxStatusNodes)]
}

// came removes a server from those that are asked for, and reports whether it was one.
func (t *serverTable) came(rank uint32) bool {
	have := len(t.coming)
	t.coming = slices.DeleteFunc(t.coming, func(x comingServer) bool { return x.Rank == rank })
	t.dirty = t.dirty || len(t.coming) < have
	return len(t.coming) < have
}

// failed drops a server that was asked for, and returns where it was wanted; false: it was not asked
// for.
func (t *serverTable) failed(out *output, rank int, reason string) (host string, ok bool) {
	for _, x := range t.coming {
		if int(x.Rank) == rank {
			t.came(x.Rank)
			t.tell(out, control.ServerFailed, x.Host, x.Rank, nil, reason)
			return x.Host, true
		}
	}
	return "", false
}

// growTo adds vacant ranks up to a number.
func (t *serverTable) growTo(ranks int) {
	if ranks > t.ranks {
		t.ranks, t.dirty = ranks, true
	}
}

// late lists the servers that have not registered in time.
func (t *serverTable) late(now time.Time) (ranks []uint32) {
	for _, x := range t.coming {
		if !now.Before(x.by) {
			ranks = append(ranks, x.Rank)
		}
	}
	return ranks
}

// renew renews the deadlines, after the scheduler was paused.
func (t *serverTable) renew(now time.Time) {
	for i := range t.coming {
		t.coming[i].by = now.Add(t.set.Elastic.JoinTimeout)
	}
}

func (t *serverTable) next(open bool) (next time.Time) {
	if !open {
		return next
	}
	for _, x := range t.coming {
		next = sooner(next, x.by)
	}
	return next
}

// tell tells the event of a server that is added or removed; n is nil before it has registered.
func (t *serverTable) tell(out *output, action, host string, rank uint32, n *node, reason string) {
	e := control.Event{Action: action, Host: host, Role: roleName(wire.RoleServer), Rank: rank, Reason: reason}
	if n != nil {
		e.PID, e.Process = n.PID, n.process
	}
	out.event(e)
}

// A keptServers is the record of a serverTable.
type keptServers struct {
	Ranks  int
	Coming []keptServer `json:",omitempty"`
}

func (t *serverTable) keep(out *output) {
	if t.dirty {
		t.dirty = false
		out.put("server", t.kept())
	}
}

func (t *serverTable) kept() keptServers {
	k := keptServers{Ranks: t.ranks}
	for _, x := range t.coming {
		k.Coming = append(k.Coming, x.keptServer)
	}
	return k
}

func (t *serverTable) restore(value []byte, now time.Time) error {
	var k keptServers
	if err := json.Unmarshal(value, &k); err != nil {
		return err
	}
	if k.Ranks > maxServers && k.Ranks > t.set.Servers {
		return fmt.Errorf("it has %d ranks of servers, want at most %d", k.Ranks, maxServers)
	}
	t.ranks = max(t.set.Servers, k.Ranks)
	for _, x := range k.Coming {
		if x.Rank >= maxServers {
			return fmt.Errorf("server %d was asked for, want one below %d", x.Rank, maxServers)
		}
		t.coming = append(t.coming, comingServer{x, now.Add(t.set.Elastic.JoinTimeout)})
	}
	return nil
}

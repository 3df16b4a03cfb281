package cluster

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A life ends once, and the first reason stays.
func TestALifeEndsOnce(t *testing.T) {
	l := newLife()
	if l.over() != nil {
		t.Errorf("over at once: %v", l.over())
	}
	if !l.end(nil) || l.end(ErrClosed) {
		t.Error("it ends once")
	}
	<-l.done
	<-l.ctx.Done()
	if l.reason() != nil || !errors.Is(l.over(), ErrFinished) {
		t.Errorf("reason %v, over %v, want the job finished", l.reason(), l.over())
	}
}

// Nobody gets a Client once the node has ended, and one that is there says why its calls break.
func TestPeersEndWithTheNode(t *testing.T) {
	l := newLife()
	p := newPeers(l, func(Role) transport.Config { return transport.Config{} })
	find := func(Rank) (string, error) { return "s0:1", nil }
	at := &position{}
	c, err := p.server(0, at, find)
	again, _ := p.server(0, at, find)
	if err != nil || c.addr != "s0:1" || c != again {
		t.Fatalf("got %p at %s and %p, error %v, want one Client", c, c.addr, again, err)
	}
	l.end(&LostError{"x"})
	p.close()
	if _, err := p.server(0, at, find); !errors.Is(err, ErrLost) {
		t.Errorf("a Client after the end: %v", err)
	}
	if _, err := c.Call(t.Context(), &wire.Ack{}, &wire.Ack{}, nil); !errors.Is(err, ErrLost) || !errors.Is(err, transport.ErrClosed) {
		t.Errorf("a call after the end: %v", err)
	}
}

// A rank's server is the one of the newest membership, and is looked for once in each.
func TestServersAreThoseOfTheNewestMembership(t *testing.T) {
	p := newPeers(newLife(), func(Role) transport.Config { return transport.Config{} })
	defer p.close()
	looked := 0
	servers := []string{"s0:1", "s1:1"}
	find := func(rank Rank) (string, error) {
		looked++
		return servers[rank], nil
	}
	first, second := &position{generation: 1}, &position{generation: 2}
	want := func(rank Rank, at *position, addr string, lookups int) {
		t.Helper()
		c, err := p.server(rank, at, find)
		if err != nil || c.addr != addr || looked != lookups {
			t.Errorf("server %d: got %s after %d lookups, error %v; want %s after %d", rank, c.addr, looked, err, addr, lookups)
		}
	}
	want(0, first, "s0:1", 1)
	want(1, first, "s1:1", 2)
	want(0, first, "s0:1", 2)
	servers[0] = "s2:1"
	want(0, second, "s2:1", 3)
	want(1, second, "s1:1", 4)
	want(0, second, "s2:1", 4)
	// Who has the position of before looks anew, and finds the newest.
	want(0, first, "s2:1", 5)
	want(0, second, "s2:1", 6)
}

// A stopped process does not take the scheduler for silent by the call that was under way.
func TestSilenceIsMeasuredByCallsThatBeganInIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReach()
		asked := time.Now()
		time.Sleep(time.Hour)
		if s := r.since(asked); s.now != time.Hour || s.before != 0 || !s.say {
			t.Errorf("a call over an hour: %+v", s)
		}
		if s := r.since(time.Now()); s.before != time.Hour || s.say {
			t.Errorf("the next one: %+v, want the silence before it, and no second line", s)
		}
		r.answered()
		if s := r.since(time.Now()); s.now != 0 {
			t.Errorf("after an answer: %+v", s)
		}
	})
}

// A joining worker has the rank behind all others until it is a member, and keeps its rank when it
// is not named.
func TestARankIsThatOfTheNewestMembership(t *testing.T) {
	m := newMembership()
	say := func(revision uint64, nodes ...wire.Member) {
		m.update(&wire.Membership{Revision: revision, Generation: revision, Phase: wire.PhaseRunning, Workers: 3, Nodes: nodes}, 7)
	}
	for _, c := range []struct {
		nodes []wire.Member
		rank  Rank
		want  bool
	}{
		{[]wire.Member{{Node: 7, Rank: -1, State: wire.MemberJoining}}, 3, false},
		{[]wire.Member{{Node: 6, Rank: 0}, {Node: 7, Rank: 1}}, 1, true},
		{[]wire.Member{{Node: 6, Rank: 0}}, 1, true},
	} {
		say(m.get().Revision+1, c.nodes...)
		if rank, member := m.rank(); rank != c.rank || member != c.want || m.joining() == c.want {
			t.Errorf("%+v: rank %d, member %v, joining %v", c.nodes, rank, member, m.joining())
		}
	}
}

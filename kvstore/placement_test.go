package kvstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// movingNode is a member of a job whose shards have moved: the placement is 2 once news is closed.
type movingNode struct {
	*inProcess
	news  chan struct{}
	fails int32 // so many questions for places are not answered
	asked atomic.Int32
}

func (n *movingNode) moved() bool {
	select {
	case <-n.news:
		return true
	default:
		return false
	}
}

func (n *movingNode) Membership() wire.Membership {
	m := n.inProcess.Membership()
	if m.Placement = 1; n.moved() {
		m.Placement = 2
	}
	return m
}

func (n *movingNode) Changed() <-chan struct{} {
	if n.moved() {
		return nil
	}
	return n.news
}

func (n *movingNode) Server(cluster.Rank) (transport.Caller, string, error) {
	return n.server, inProcessAddr, nil
}

func (n *movingNode) Places(context.Context, uint64) (wire.Places, error) {
	if n.asked.Add(1) <= n.fails {
		return wire.Places{}, errors.New("the scheduler is away")
	}
	return wire.Places{Placement: 2, Places: []wire.Place{{Key: 0, Shard: 0, Server: 3}}}, nil
}

// Where the scheduler cannot say where shards are, it is asked again after a pause, until it can:
// who sends to a server that is gone waits for the answer.
func TestPlacesAreAskedForUntilTheyAreKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &movingNode{inProcess: newInProcess(), news: make(chan struct{}), fails: 3}
		kv, err := Create(t.Context(), "dist", withMember(n), WithLogger(slog.New(slog.DiscardHandler)))
		if err != nil {
			t.Fatal(err)
		}
		defer kv.Close()
		if err := kv.Init(t.Context(), "x", []float32{1, 2}); err != nil {
			t.Fatal(err)
		}
		s := kv.(*store)
		close(n.news)
		for attempt := int32(1); attempt <= n.fails+1; attempt++ {
			synctest.Wait()
			if known := s.placement.version.Load() == 2; n.asked.Load() != attempt || known != (attempt > n.fails) {
				t.Fatalf("after %d pauses: asked %d times, placement %d; want %d times", attempt-1, n.asked.Load(), s.placement.version.Load(), attempt)
			}
			time.Sleep(refreshPause)
		}
		synctest.Wait()
		if got := fmt.Sprint(n.asked.Load(), s.keys.get("x").servers[0].Load()); got != "4 3" {
			t.Errorf("questions and the shard's server: got %s, want 4 and 3", got)
		}
	})
}

// growingNode is a movingNode whose job has one more server once news is closed.
type growingNode struct{ *movingNode }

func (n *growingNode) Membership() wire.Membership {
	m := n.movingNode.Membership()
	if n.moved() {
		m.Nodes = append(m.Nodes, wire.Member{Node: 9, Role: wire.RoleServer, Rank: 1})
	}
	return m
}

// When shards move, those who sum up within the host hear of each key's, only keys with unreplicated
// pushes are sent again, and a server that has joined is set up, once.
func TestAMoveIsToldToWhomItConcerns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &growingNode{&movingNode{inProcess: newInProcess(), news: make(chan struct{})}}
		p := newPlacementTracker(n)
		var moved, resent, setUps atomic.Int32
		p.start(placementEnv{
			moved: func(k *key, shards []int) { moved.Add(int32(len(shards))) },
			resend: func(_ context.Context, k *key, shards []int) {
				if k.unreplicated.Load() == nil || len(shards) != 1 {
					t.Errorf("key %d: resends shards %v, copies %v", k.id, shards, k.unreplicated.Load())
				}
				resent.Add(1)
			},
			setUp:   func(context.Context) error { setUps.Add(1); return nil },
			joining: func() bool { return false },
			logger:  slog.New(slog.DiscardHandler),
		})
		k := newKey(&keyEnv{settings: &settings{}}, &wire.KeyPlan{Key: 0, Form: wire.FormDense, Size: 1, Shards: []wire.ShardPlace{{Length: 1}}})
		k.unreplicated.Store(&unreplicatedPushes{busy: make(chan struct{}, 1)})
		other := newKey(k.env, &wire.KeyPlan{Key: 7, Form: wire.FormDense, Size: 1, Shards: []wire.ShardPlace{{Length: 1}}})
		p.track(k, 1)
		p.track(other, 1)
		close(n.news)
		synctest.Wait()
		p.requestRefresh()
		synctest.Wait()
		p.close()
		if got := fmt.Sprint(moved.Load(), resent.Load(), setUps.Load(), k.servers[0].Load(), other.servers[0].Load()); got != "1 1 1 3 0" {
			t.Errorf("shards moved, keys resent, servers set up, and the servers of two keys: got %s, want 1 1 1 3 0", got)
		}
	})
}

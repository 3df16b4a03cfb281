package kvstore

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A lonelyMember cannot reach the other workers of its host, and counts how often it was to ask
// one.
type lonelyMember struct {
	hostMember
	asked atomic.Int64
}

func (m *lonelyMember) ID() cluster.NodeID             { return 7 }
func (m *lonelyMember) Rank() cluster.Rank             { return 0 }
func (m *lonelyMember) Generation() cluster.Generation { return 1 }
func (m *lonelyMember) Worker(cluster.NodeID) (transport.Caller, error) {
	m.asked.Add(1)
	return nil, errors.New("it is out of reach")
}

// Where very many small keys move to another server, no worker is told of those that are never
// added up within the host.
func TestSmallKeysThatMoveAreNotTold(t *testing.T) {
	for _, c := range []struct {
		size int
		all  bool
		want int64
	}{{smallValues, false, 0}, {smallValues + 1, false, 1}, {smallValues, true, 1}} {
		m := &lonelyMember{}
		h := &hostSums{node: m, ctx: t.Context(), leaders: leaders{node: m, all: c.all}}
		h.bypasses = bypasses{tell: h.leaders.tell, over: h.ctx}
		h.leaders.host.Store(&hostView{group: []uint64{8, 9}, names: []string{"8", "9"}})
		h.moved(&key{form: wire.FormDense, size: c.size, shards: make([]wire.ShardPlace, 1)}, []int{0})
		h.bypasses.wait()
		if got := m.asked.Load(); got != c.want {
			t.Errorf("a key of %d values, all %v: other workers of the host were asked %d times, want %d", c.size, c.all, got, c.want)
		}
	}
}

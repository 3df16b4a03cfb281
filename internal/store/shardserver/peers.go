package shardserver

import (
	"context"
	"fmt"
	"sync"

	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// Peers is what a server with backups needs of its membership in a job. The methods may be called
// concurrently.
type Peers interface {
	// ID is this server's node, and Rank its rank, which may change with the membership.
	ID() uint64
	Rank() uint32

	// Server returns the Caller to the server of a rank, which belongs to the Peers.
	Server(rank uint32) (transport.Caller, error)

	// Places asks the scheduler where the shards of keys are, beginning with key from. The answer
	// is of one placement.
	Places(ctx context.Context, from uint64) (wire.Places, error)

	// Filled reports to the scheduler that backups have the whole state, or no longer have it. A
	// refusal with CodeMoved says that another server is the backup or the primary of one of the
	// shards now.
	Filled(ctx context.Context, m wire.Filled) error
}

// backups is what a server of a job with backups has besides: the way to the other servers, and what
// is under way there.
type backups struct {
	peers      Peers
	newKeys    newKeysRead
	replicator *replicator
}

// readPlacement reads the placement that belongs to a membership, before the server uses that
// membership.
func (b *backups) readPlacement(ctx context.Context, m *wire.Membership) (*placement, error) {
	p := &placement{number: m.Placement, nodes: map[uint32]uint64{}}
	for _, n := range m.Nodes {
		if n.Role == wire.RoleServer && n.Rank >= 0 {
			p.nodes[uint32(n.Rank)] = n.Node
		}
	}
	got, err := b.peers.Places(ctx, 0)
	if err != nil {
		return nil, err
	}
	if got.Placement != m.Placement {
		return nil, fmt.Errorf("server: places: got those of placement %d, want %d", got.Placement, m.Placement)
	}
	p.add(&got)
	return p, nil
}

// A newKeysRead makes requests that need the places of new keys share one question to the
// scheduler.
type newKeysRead struct {
	mu sync.Mutex
	// reading is closed when the question under way is answered. Nil: there is none.
	reading chan struct{}
}

// join returns the question under way. If there is none the caller is to ask it (mine), and then to
// call end.
func (r *newKeysRead) join() (reading chan struct{}, mine bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if mine = r.reading == nil; mine {
		r.reading = make(chan struct{})
	}
	return r.reading, mine
}

// end answers the question: all who share it look again.
func (r *newKeysRead) end(reading chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reading = nil
	close(reading)
}

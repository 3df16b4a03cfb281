package cluster

import (
	"context"
	"errors"
	"net"

	"github.com/paragon-train/paragon/transport"
	"github.com/paragon-train/paragon/wire"
)

// ErrNoJob says that the environment describes no job at all, so that a program may run alone.
var ErrNoJob = errors.New("no job in the environment")

// ErrClosed is what Err says after Close or Leave: the node ended by itself.
var ErrClosed = errors.New("closed")

var errNotBuilt = errors.New("cluster: not built yet")

// FromEnv reads a job from the environment. ErrNoJob is in the error's chain when none of its variables is set.
func FromEnv(getenv func(string) string) (Config, error) { return Config{}, errNotBuilt }

// Listen opens the listener of a server: at cfg.Listen, or at the address that reaches the scheduler and a free port. Addr is
// what others reach it at, for Config.Addr:
//
//	ln, addr, err := cluster.Listen(ctx, cfg)
//	cfg.Addr = addr
//	node, err := cluster.Join(ctx, cfg)
//	srv := transport.NewServer(ln, handler, transport.Config{Network: cfg.Network, Secret: cfg.Secret})
//	srv.Serve() // workers that came early have waited in the listener
func Listen(ctx context.Context, cfg Config) (ln net.Listener, addr string, err error) {
	return nil, "", errNotBuilt
}

// Node is a process's place in a job. Its methods may be called together from any goroutine.
type Node struct{}

// Join registers with the scheduler and returns when the job is complete: all its workers and servers are there and the
// membership has its first generation. While it waits it logs whom for.
func Join(ctx context.Context, cfg Config) (*Node, error) { return nil, errNotBuilt }

// ID is the node's ID.
func (n *Node) ID() NodeID { return 0 }

// Role is the node's role.
func (n *Node) Role() Role { return 0 }

// Rank is the node's rank in the newest generation known.
func (n *Node) Rank() Rank { return 0 }

// Generation is the newest generation known.
func (n *Node) Generation() Generation { return 0 }

// Membership is the newest membership known. The slices are shared and must not be changed.
func (n *Node) Membership() wire.Membership { return wire.Membership{} }

// Changed returns a channel that is closed when the membership is another than it is now. Take the channel first, then
// read Membership, then wait.
func (n *Node) Changed() <-chan struct{} { return nil }

// Server returns the Caller to the server of a rank and the server's address. The Caller belongs to the node: it is shared,
// and closed by Close.
func (n *Node) Server(rank Rank) (transport.Caller, string, error) { return nil, "", errNotBuilt }

// Declare asks for the plan of a key. Generation and Node are filled in.
func (n *Node) Declare(ctx context.Context, d wire.Declare) (wire.KeyPlan, error) {
	return wire.KeyPlan{}, errNotBuilt
}

// Barrier returns when every worker has called it with the same name. A name is used once in a job.
func (n *Node) Barrier(ctx context.Context, name string) error { return errNotBuilt }

// Signal marks a name as happened.
func (n *Node) Signal(ctx context.Context, name string) error { return errNotBuilt }

// Await returns once the name was signalled.
func (n *Node) Await(ctx context.Context, name string) error { return errNotBuilt }

// Progress tells what the next heartbeats say: the last step finished and its epoch (of servers, the rounds closed).
func (n *Node) Progress(step, epoch uint64) {}

// Done is closed when the job ended for this node: it finished (Err is nil), it failed, the scheduler holds the node for
// lost, or the node was closed.
func (n *Node) Done() <-chan struct{} { return nil }

// Err says why Done is closed; nil while it is not, and when the job finished in order.
func (n *Node) Err() error { return nil }

// Leave tells the scheduler that the node ends, in order or (ok false) for a reason that fails the job, and closes the node.
func (n *Node) Leave(ctx context.Context, ok bool, reason string) error { return errNotBuilt }

// Close ends the node without a word: the scheduler finds out when its lease is over.
func (n *Node) Close() error { return nil }

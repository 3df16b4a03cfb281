package scheduler

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A node is a process that has registered, also after it has left.
type node struct {
	// Member is what the others are told of it. Its Rank is -1 before it counts.
	wire.Member

	// wantedRank is the rank that it asked for; -1: any.
	wantedRank int32
	// process is the number that the launcher gave its process; 0: it was started by hand.
	process uint32
	// nonce tells a registration that is repeated from that of another process.
	nonce uint64

	life life
	// why says how it was lost, or why it was dropped.
	why string
	// gone is when it left or was lost, as far as this scheduler has seen it.
	gone time.Time
	// joinBy is when a worker that joins is dropped if it is not ready; zero: it does not join.
	joinBy time.Time

	lease lease
	// said is what it said of itself when it was heard last.
	said progress
}

// A progress is how far a node is, as it says.
type progress struct {
	step  uint64
	epoch uint64
	// wait is the longest of its calls; At is empty: none has waited for long.
	wait control.Wait
}

func progressOf(b *wire.Heartbeat) progress {
	return progress{b.Step, b.Epoch, control.Wait{At: b.Call, For: b.WaitsFor, Seconds: float64(b.WaitsMillis) / 1000}}
}

// A life says whether a node is there, as Member.State says which place it has while it is. It only
// goes forward: living, perhaps removed, then left or lost.
type life uint8

const (
	living life = iota
	// left is the state of a node that has left cleanly.
	left
	// lost is the state of a node that was silent for too long, failed, or was dropped before
	// it counted.
	lost
	// removed is the state of a node that a change has removed, until it acknowledges that.
	removed
)

// takesPart reports whether rounds and barriers wait for the node.
func (n *node) takesPart() bool { return n.life == living && n.Counts() }

// stays reports whether the node counts, and still will after the next change.
func (n *node) stays() bool { return n.life == living && n.State == wire.MemberCounts }

// listens reports whether the node may still ask: it lives, or has not acknowledged its removal.
func (n *node) listens() bool { return n.life == living || n.life == removed }

// worker reports whether the node is a living worker.
func (n *node) worker() bool { return n.life == living && n.Role == wire.RoleWorker }

// String names the node for people: by its rank once it has one.
func (n *node) String() string {
	if n.Rank < 0 {
		return fmt.Sprintf("%s on %s", roleName(n.Role), n.Host)
	}
	return fmt.Sprintf("%s %d on %s", roleName(n.Role), n.Rank, n.Host)
}

// describe names a node and says how far it is.
func (n *node) describe(now time.Time) string {
	return fmt.Sprintf("%v (last step %d, heard from %s ago)", n, n.said.step, control.Seconds(now.Sub(n.lease.heard)))
}

// logged is what the log's events say of a node.
func (n *node) logged() joblog.Node {
	return joblog.Node{Role: roleName(n.Role), Rank: int(n.Rank), Host: n.Host, Process: n.process}
}

// loggedLoss is what the log says of the node's loss.
func (n *node) loggedLoss(text string, generation uint64) slog.Attr {
	if n.Role == wire.RoleServer {
		return joblog.ServerLost.Of(n.logged(), "node", n.Node, "reason", text, "generation", generation)
	}
	return joblog.WorkerLost.Of(n.logged(), "node", n.Node, "reason", text, "generation", generation)
}

// event is an event of the node's process on its host.
func (n *node) event(action, reason string) control.Event {
	return control.Event{Action: action, Host: n.Host, Role: roleName(n.Role), PID: n.PID, Process: n.process, Reason: reason}
}

// rankEvent is event with the node's rank.
func (n *node) rankEvent(action, reason string) control.Event {
	e := n.event(action, reason)
	e.Rank = uint32(max(n.Rank, 0))
	return e
}

// loss is the failure of a job that does not survive the loss of the node.
func (n *node) loss(cause control.Cause) control.Failure {
	return control.Failure{Code: control.NodeLost, Role: roleName(n.Role), Rank: int(n.Rank), Host: n.Host, Process: n.process, Step: n.said.step, Cause: cause}
}

// failed is the failure of a job that the node reported.
func (n *node) failed(text string) control.Failure {
	f := n.loss(control.Cause{Kind: control.CauseError, Text: text})
	f.Code = control.NodeError
	return f
}

func roleName(role uint8) string {
	switch role {
	case wire.RoleServer:
		return "server"
	case wire.RoleWorker:
		return "worker"
	}
	return "scheduler"
}

var memberStates = [...]string{wire.MemberCounts: control.NodeCounts, wire.MemberJoining: control.NodeJoining, wire.MemberReady: control.NodeReady, wire.MemberLeaving: control.NodeLeaving}

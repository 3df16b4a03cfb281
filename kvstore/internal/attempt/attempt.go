// Package attempt has the one loop in which a store repeats a request until it is settled,
// whichever way the request goes: to the server that holds a shard, by way of the worker that sums
// up for this host, or in a message with others. Rules of retry, generation and deadline are here
// and nowhere else. The loop knows neither stores nor connections: see Request and Env.
package attempt

import (
	"errors"
	"fmt"
	"time"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A Way is whom a request goes to first.
type Way uint8

const (
	// ViaServer leads to the server that holds the shard.
	ViaServer Way = iota
	// ViaLeader leads to the worker of this host that sums up the shard's gradients and pushes
	// the sum. Where that fails the request goes on via the server.
	ViaLeader
	// ViaMessage leads to the server in one message with pushes of other small keys. The
	// message is sent once; each of its pushes that has no answer goes on by itself via the
	// server.
	ViaMessage
)

// A Request is one request, as the loop of its attempts sees it.
type Request interface {
	// Attempt sends the request once, with the membership of this moment, and waits for the
	// answer.
	Attempt(Way) error
	// Over is closed once nobody waits for the answer any more.
	Over() <-chan struct{}
	// Note keeps the error of an attempt that is repeated, to say whom is waited for.
	Note(error)
	// LeaderLost says that the leader cannot be reached.
	LeaderLost(error)
}

// An Env is what the loop knows of the job around a request. Tests of the loop have one of
// their own.
type Env struct {
	// Ended is closed when the job has ended for this worker; EndError says why.
	Ended    <-chan struct{}
	EndError func() error
	// Explain wraps an error of cluster or transport in those that callers ask for.
	Explain func(error) error
	// Unconfirmed adds what to do when a server has refused this worker's membership for so
	// long and the scheduler has not said why.
	Unconfirmed func(err error, waited time.Duration) error
	// Removed reports whether this worker was asked to leave, and has.
	Removed func() bool
	// Movable reports whether a shard may move to another server.
	Movable func() bool
	// LeaderPatience is how long a leader may say nothing.
	LeaderPatience time.Duration
}

// Pauses between two attempts double from the first to the longest. Most repeats wait for news of
// the membership, which takes milliseconds; a server that is restarted takes seconds, and one
// request a second does not burden it.
const (
	FirstPause   = 5 * time.Millisecond
	LongestPause = time.Second
)

// StaleGrace is how long two nodes may disagree about the generation, or fail to prove the job's
// secret, before a call gives up. It is longer than the default lease (10 s): within a lease the
// scheduler tells either node about the change.
const StaleGrace = 15 * time.Second

// LeaderGrace is how long a worker tries to reach a leader whose connection is broken. A worker
// that dies is out of the membership after milliseconds where launch sees it end. It is also how
// long an answer may take beyond the time that the leader was asked to wait.
const LeaderGrace = time.Second

// A Loop repeats one request until it was answered, was refused for good, or nobody waits for
// it. It is the only loop that does so, whichever way the request goes.
//
// Invariants:
//
//   - A repeated request is the same one: Request.Attempt changes nothing but the membership in it.
//     So it counts once, however many attempts have reached a server.
//   - The way changes at most once, from a leader to the server, and never back. (The pushes of a
//     message whose only attempt has failed go on in loops of their own, via the server.)
//   - The loop has no deadline of its own but for doubt: the op ends the wait, because its timeout
//     counts from its beginning, through all attempts and pauses.
type Loop struct {
	env *Env
	way Way
	// whole says that the request is about a whole server, not about a shard.
	whole bool

	pause time.Duration
	// doubted is since when every attempt has failed in a way that may or may not be temporary;
	// zero: the last one has not.
	doubted time.Time
	// asked is since when the leader has said nothing, and patience for how long it may.
	asked    time.Time
	patience time.Duration
}

// An outcome says what follows an attempt.
type outcome uint8

const (
	// settled: there is nothing left to do.
	settled outcome = iota
	// again: after a pause, the same way.
	again
	// turnToServer: at once, via the server.
	turnToServer
	// final: the error is that of the request.
	final
	// finalButWhy is final, unless the scheduler says within a moment why the job has ended: so
	// all calls return the same cause.
	finalButWhy
)

// New returns a loop for a request that goes this way first.
func New(env *Env, w Way, whole bool) Loop {
	return Loop{env: env, way: w, whole: whole, pause: FirstPause, patience: env.LeaderPatience}
}

// Run makes attempts until one settles the request. A request whose first attempt was made
// elsewhere has its error in first, and took says how long ago it began.
func (a *Loop) Run(x Request, first error, took time.Duration) error {
	if a.way == ViaLeader {
		a.asked = time.Now()
	}
	for {
		began, err := time.Now(), first
		if first = nil; err != nil {
			began = began.Add(-took)
		} else if err = x.Attempt(a.way); err == nil {
			return nil
		}
		if IsClosed(x.Over()) && !a.serverGone(err) {
			// The op knows why, and adds it.
			return err
		}
		next, err := a.judge(x, err, began)
		switch next {
		case settled:
			return nil
		case turnToServer:
			a.way, a.pause = ViaServer, FirstPause
			continue
		case final:
			return err
		case finalButWhy:
			return a.awaitEnd(x, err)
		}
		if !a.sleep(x) {
			return err
		}
		if IsClosed(a.env.Ended) {
			return fmt.Errorf("%w; %w", a.env.EndError(), err)
		}
	}
}

// judge says what follows an attempt that has failed, and explains its error.
func (a *Loop) judge(x Request, err error, began time.Time) (outcome, error) {
	switch a.way {
	case ViaLeader:
		return a.judgeLeader(x, err), err
	case ViaMessage:
		return final, err
	}
	return a.judgeServer(x, err, began)
}

// judgeLeader judges an attempt via the leader. Its errors reach no caller: at worst the push goes
// to the server.
func (a *Loop) judgeLeader(x Request, err error) outcome {
	var refusal *transport.Refusal
	switch {
	case !errors.As(err, &refusal):
		// The leader is gone, and another membership will come; or this process cannot
		// connect to it.
		a.patience = min(a.patience, LeaderGrace)
		if time.Since(a.asked) > a.patience {
			x.LeaderLost(err)
		}
	case refusal.Code == wire.CodeTimeout:
		// The leader works on it: the sum is at the server, or a worker is late.
		a.asked, a.pause = time.Now(), FirstPause
		x.Note(err)
	case refusal.Code == wire.CodeStaleGeneration || refusal.Code == wire.CodeBusy:
	default:
		// A leader that gives up late says whom it has waited for.
		if time.Since(a.asked) > a.env.LeaderPatience/2 {
			x.Note(err)
		}
		return turnToServer
	}
	if time.Since(a.asked) > a.patience {
		return turnToServer
	}
	return again
}

// judgeServer judges an attempt via the server.
func (a *Loop) judgeServer(x Request, err error, began time.Time) (outcome, error) {
	if a.serverGone(err) {
		return settled, nil
	}
	code, repeat, err := a.classify(err)
	switch {
	case !repeat && code == wire.CodeUnavailable:
		return finalButWhy, err
	case !repeat:
		return final, err
	}
	x.Note(err)
	switch {
	case code == wire.CodeStaleGeneration, code == wire.CodeUnknownNode, code == wire.CodeMoved, code == wire.CodeUnavailable, errors.Is(err, transport.ErrAuth):
		// The peer or this node has not yet heard of a membership change. (A node that is
		// no longer a member stops, too: its job has ended.) A connection that breaks
		// during the handshake may look like a failed authentication.
		if a.doubted.IsZero() {
			a.doubted = began
		} else if time.Since(a.doubted) > StaleGrace {
			return final, a.env.Unconfirmed(err, StaleGrace)
		}
	case code == wire.CodeTimeout && time.Since(began) > time.Second:
		// The server held the request for as long as it was asked to: it works.
		a.pause, a.doubted = FirstPause, time.Time{}
	default:
		a.doubted = time.Time{}
	}
	return again, err
}

// classify says whether to repeat a failed attempt, and explains its error.
func (a *Loop) classify(err error) (code wire.Code, repeat bool, _ error) {
	moves := a.shardMayMove(err)
	var r *transport.Refusal
	refused := errors.As(err, &r)
	err = a.env.Explain(err)
	if refused {
		switch code = r.Code; code {
		case wire.CodeStaleGeneration, wire.CodeUnknownNode:
			if a.env.Removed() {
				return code, false, fmt.Errorf("%w: %w", cluster.ErrRemoved, err)
			}
			return code, true, err
		case wire.CodeTimeout, wire.CodeBusy:
			return code, true, err
		}
		return code, moves, err
	}
	return 0, moves || errors.Is(err, transport.ErrConnection) || errors.Is(err, transport.ErrAuth), err
}

// shardMayMove reports whether a failed attempt may succeed at another server, perhaps one that the
// scheduler has yet to choose.
func (a *Loop) shardMayMove(err error) bool {
	if !a.env.Movable() || IsClosed(a.env.Ended) {
		return false
	}
	var r *transport.Refusal
	if errors.As(err, &r) {
		return r.Code == wire.CodeMoved || r.Code == wire.CodeUnavailable
	}
	return errors.Is(err, cluster.ErrNoServer) || errors.Is(err, transport.ErrClosed)
}

// serverGone reports whether the request is about a whole server that has left the job: then there
// is nothing to do.
func (a *Loop) serverGone(err error) bool {
	return a.whole && a.env.Movable() && errors.Is(err, cluster.ErrNoServer)
}

// sleep waits for the pause before the next attempt, which the end of the job cuts short. It
// returns false if nobody waits for the answer any more.
func (a *Loop) sleep(x Request) bool {
	t := time.NewTimer(a.pause)
	defer t.Stop()
	a.pause = min(2*a.pause, LongestPause)
	select {
	case <-t.C:
	case <-a.env.Ended:
	case <-x.Over():
		return false
	}
	return true
}

// awaitEnd waits a second for the scheduler to say why the job has ended, when a server reports the
// end first.
func (a *Loop) awaitEnd(x Request, err error) error {
	t := time.NewTimer(time.Second)
	defer t.Stop()
	select {
	case <-t.C:
	case <-x.Over():
	case <-a.env.Ended:
		return fmt.Errorf("%w; %w", a.env.EndError(), err)
	}
	return err
}

// IsClosed reports whether a channel that nothing is sent on is closed.
func IsClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

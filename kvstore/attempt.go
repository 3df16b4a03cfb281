package kvstore

import (
	"errors"
	"fmt"
	"time"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A way is whom a request goes to first.
type way uint8

const (
	// viaServer leads to the server that holds the shard.
	viaServer way = iota
	// viaLeader leads to the worker of this host that sums up the shard's gradients and pushes
	// the sum. Where that fails the request goes on via the server.
	viaLeader
	// viaMessage leads to the server in one message with pushes of other small keys. The message
	// is sent once; each of its pushes that has no answer goes on by itself via the server.
	viaMessage
)

// An exchange is a request, as the loop of its attempts sees it.
type exchange interface {
	// attempt sends the request once, with the membership of this moment, and waits for the
	// answer.
	attempt(way) error
	// over is closed once nobody waits for the answer any more.
	over() <-chan struct{}
	// note keeps the error of an attempt that is repeated, to say whom is waited for.
	note(error)
	// leaderLost says that the leader cannot be reached.
	leaderLost(error)
}

// attemptEnv is what the loop knows of the job around a request. Tests of the loop have one of
// their own.
type attemptEnv struct {
	// ended is closed when the job has ended for this worker; endError says why.
	ended    <-chan struct{}
	endError func() error
	// explain wraps an error of cluster or transport in this package's errors.
	explain func(error) error
	// removed reports whether this worker was asked to leave, and has.
	removed func() bool
	// movable reports whether a shard may move to another server.
	movable func() bool
	// leaderPatience is how long a leader may say nothing.
	leaderPatience time.Duration
}

// Pauses between two attempts double from the first to the longest. Most repeats wait for news of
// the membership, which takes milliseconds; a server that is restarted takes seconds, and one
// request a second does not burden it.
const (
	firstPause   = 5 * time.Millisecond
	longestPause = time.Second
)

// staleGrace is how long two nodes may disagree about the generation, or fail to prove the job's
// secret, before a call gives up. It is longer than the default lease (10 s): within a lease the
// scheduler tells either node about the change.
const staleGrace = 15 * time.Second

// leaderGrace is how long a worker tries to reach a leader whose connection is broken. A worker that
// dies is out of the membership after milliseconds where launch sees it end. It is also how long an
// answer may take beyond the time that the leader was asked to wait.
const leaderGrace = time.Second

// An attempts repeats one request until it was answered, was refused for good, or nobody waits for
// it. It is the only loop that does so, whichever way the request goes.
//
// Invariants:
//
//   - A repeated request is the same one: exchange.attempt changes nothing but the membership in it.
//     So it counts once, however many attempts have reached a server.
//   - The way changes at most once, from a leader or a message to the server, and never back.
//   - The loop has no deadline of its own but for doubt: the op ends the wait, because its timeout
//     counts from its beginning, through all attempts and pauses.
type attempts struct {
	env *attemptEnv
	way way
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

// newAttempts returns a loop for a request that goes this way first.
func newAttempts(env *attemptEnv, w way, whole bool) attempts {
	return attempts{env: env, way: w, whole: whole, pause: firstPause, patience: env.leaderPatience}
}

// run makes attempts until one settles the request. A request whose first attempt was made elsewhere
// has its error in first, and took says how long ago it began.
func (a *attempts) run(x exchange, first error, took time.Duration) error {
	if a.way == viaLeader {
		a.asked = time.Now()
	}
	for {
		began, err := time.Now(), first
		if first = nil; err != nil {
			began = began.Add(-took)
		} else if err = x.attempt(a.way); err == nil {
			return nil
		}
		if isClosed(x.over()) && !a.serverGone(err) {
			return err // the op knows why
		}
		next, err := a.judge(x, err, began)
		switch next {
		case settled:
			return nil
		case turnToServer:
			a.way, a.pause = viaServer, firstPause
			continue
		case final:
			return err
		case finalButWhy:
			return a.awaitEnd(x, err)
		}
		if !a.sleep(x) {
			return err
		}
		if isClosed(a.env.ended) {
			return fmt.Errorf("%w; %w", a.env.endError(), err)
		}
	}
}

// judge says what follows an attempt that has failed, and explains its error.
func (a *attempts) judge(x exchange, err error, began time.Time) (outcome, error) {
	switch a.way {
	case viaLeader:
		return a.judgeLeader(x, err), err
	case viaMessage:
		return final, err
	}
	return a.judgeServer(x, err, began)
}

// judgeLeader judges an attempt via the leader. Its errors reach no caller: at worst the push goes
// to the server.
func (a *attempts) judgeLeader(x exchange, err error) outcome {
	var refusal *transport.Refusal
	switch {
	case !errors.As(err, &refusal):
		// The leader is gone, and another membership will come; or this process cannot
		// connect to it.
		a.patience = min(a.patience, leaderGrace)
		if time.Since(a.asked) > a.patience {
			x.leaderLost(err)
		}
	case refusal.Code == wire.CodeTimeout:
		// The leader works on it: the sum is at the server, or a worker is late.
		a.asked, a.pause = time.Now(), firstPause
		x.note(err)
	case refusal.Code == wire.CodeStaleGeneration || refusal.Code == wire.CodeBusy:
	default:
		// A leader that gives up late says whom it has waited for.
		if time.Since(a.asked) > a.env.leaderPatience/2 {
			x.note(err)
		}
		return turnToServer
	}
	if time.Since(a.asked) > a.patience {
		return turnToServer
	}
	return again
}

// judgeServer judges an attempt via the server.
func (a *attempts) judgeServer(x exchange, err error, began time.Time) (outcome, error) {
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
	x.note(err)
	switch {
	case code == wire.CodeStaleGeneration, code == wire.CodeUnknownNode, code == wire.CodeMoved, code == wire.CodeUnavailable, errors.Is(err, transport.ErrAuth):
		// The peer or this node has not yet heard of a membership change. (A node that is no
		// longer a member stops, too: its job has ended.) A connection that breaks during
		// the handshake may look like a failed authentication.
		if a.doubted.IsZero() {
			a.doubted = began
		} else if time.Since(a.doubted) > staleGrace {
			return final, explainUnconfirmed(err)
		}
	case code == wire.CodeTimeout && time.Since(began) > time.Second:
		// The server held the request for as long as it was asked to: it works.
		a.pause, a.doubted = firstPause, time.Time{}
	default:
		a.doubted = time.Time{}
	}
	return again, err
}

// classify says whether to repeat a failed attempt, and wraps its error in this package's errors.
func (a *attempts) classify(err error) (code wire.Code, repeat bool, _ error) {
	moves := a.shardMayMove(err)
	err = a.env.explain(err)
	var r *refused
	if errors.As(err, &r) {
		switch code = r.refusal.Code; code {
		case wire.CodeStaleGeneration, wire.CodeUnknownNode:
			if a.env.removed() {
				return code, false, fmt.Errorf("%w: %w", ErrRemoved, err)
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
func (a *attempts) shardMayMove(err error) bool {
	if !a.env.movable() || isClosed(a.env.ended) {
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
func (a *attempts) serverGone(err error) bool {
	return a.whole && a.env.movable() && errors.Is(err, cluster.ErrNoServer)
}

// explainUnconfirmed adds what to do when a server has refused this worker's membership for
// staleGrace and the scheduler has not said why.
func explainUnconfirmed(err error) error {
	var r *refused
	if errors.As(err, &r) && (r.refusal.Code == wire.CodeUnknownNode || r.refusal.Code == wire.CodeStaleGeneration && r.refusal.Generation > r.ours) {
		return fmt.Errorf("%w; the scheduler has not confirmed this for %v: this worker may be cut off from the scheduler and declared lost; %s", err, staleGrace, cluster.HowToComeBack)
	}
	return err
}

// sleep waits for the pause before the next attempt, which the end of the job cuts short. It returns
// false if nobody waits for the answer any more.
func (a *attempts) sleep(x exchange) bool {
	t := time.NewTimer(a.pause)
	defer t.Stop()
	a.pause = min(2*a.pause, longestPause)
	select {
	case <-t.C:
	case <-a.env.ended:
	case <-x.over():
		return false
	}
	return true
}

// awaitEnd waits a second for the scheduler to say why the job has ended, when a server reports the
// end first.
func (a *attempts) awaitEnd(x exchange, err error) error {
	t := time.NewTimer(time.Second)
	defer t.Stop()
	select {
	case <-t.C:
	case <-x.over():
	case <-a.env.ended:
		return fmt.Errorf("%w; %w", a.env.endError(), err)
	}
	return err
}

// isClosed reports whether a channel that nothing is sent on is closed.
func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

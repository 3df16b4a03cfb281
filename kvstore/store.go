package kvstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/paragon-train/paragon/kvstore/internal/attempt"
)

// A store is a Store over a member of a job, which may be a job of one worker within this process.
// Only where the shards are differs.
//
// It is the sum of its parts, of which each owns the state that changes together and implements the
// calls about it; the store itself makes them, and ends them. A part knows only parts above it in
// this list, or is given functions, and none knows the store.
type store struct {
	cfg      *settings
	requests *requests
	// membership is whether this worker counts, and with whom.
	*membership
	placement *placementTracker
	// hostSums is nil where this worker takes no part in sums within its host.
	hostSums *hostSums
	keys     *keyTable
	// roundRules are what this worker has set for rounds: optimizer and compression.
	*roundRules
	copies *replication

	*initialiser
	*densePath
	*rowsPath
	// plainPusher is of the store's own pushes, which have weight 1.
	*plainPusher
	*measured
	*control
	*clipper
	*checkpoints
	*residualStates
	*profiling
	*reports
}

var _ Store = (*store)(nil)

// newStore makes a store of a membership. host is nil where the worker takes no part in sums within
// its host.
func newStore(cfg *settings, node member, host *hostListener) *store {
	s := &store{cfg: cfg, membership: newMembership(node), placement: newPlacementTracker(node)}
	s.requests = newRequests(cfg, node, s.membership.removed.Load, s.placement.movable)
	s.membership.requests = s.requests
	if host != nil {
		s.hostSums = startHostSums(host, cfg, s.requests.background)
		s.requests.host = &s.hostSums.leaders
	}
	closed := s.requests.flight.refused
	s.keys = newKeyTable(closed)
	s.roundRules = newRoundRules(cfg, s.Rank, closed)
	s.copies = &replication{cfg: cfg, requests: s.requests, placement: s.placement}
	common := &keyEnv{settings: cfg, closing: s.requests.flight.closing, rank: s.Rank}
	if cfg.async {
		node.Recorder().Collect(common.missed.collect)
	}

	s.initialiser = &initialiser{common: common, requests: s.requests, member: s.membership, placement: s.placement, host: s.hostSums, keys: s.keys, rules: s.roundRules}
	s.densePath = &densePath{cfg: cfg, requests: s.requests, member: s.membership, host: s.hostSums, keys: s.keys, rules: s.roundRules, copies: s.copies}
	s.rowsPath = &rowsPath{cfg: cfg, requests: s.requests, member: s.membership, keys: s.keys, copies: s.copies}
	s.plainPusher = &plainPusher{s.densePath, s.rowsPath, PushOptions{Weight: 1}}
	s.measured = &measured{s.keys}
	s.control = &control{cfg: cfg, requests: s.requests, member: s.membership, keys: s.keys, rules: s.roundRules}
	s.clipper = &clipper{cfg: cfg, requests: s.requests, member: s.membership, keys: s.keys, rules: s.roundRules}
	states := &shardStates{cfg: cfg, requests: s.requests, rules: s.roundRules}
	s.checkpoints = &checkpoints{cfg: cfg, requests: s.requests, member: s.membership, keys: s.keys, rules: s.roundRules, initialiser: s.initialiser, control: s.control, states: states}
	s.residualStates = &residualStates{cfg: cfg, keys: s.keys, rules: s.roundRules}
	s.profiling = &profiling{cfg: cfg, requests: s.requests, member: s.membership}
	s.reports = &reports{recorder: node.Recorder(), trace: s.requests.trace}

	s.membership.findRounds = s.initialiser.findRounds
	if n, ok := node.(waitReporter); ok {
		n.ReportWaits(s.requests.watcher.longest)
	}
	s.placement.start(placementEnv{moved: s.hostSums.moved, resend: s.copies.resend, setUp: s.control.setUp, joining: s.Joining, logger: cfg.logger})
	return s
}

// Type is the name given to Create.
func (s *store) Type() string { return s.cfg.kind }

// LocalSteps is what WithLocalSteps was given.
func (s *store) LocalSteps() int { return s.cfg.local }

// Step returns a Pusher for one step.
func (s *store) Step(o PushOptions) Pusher { return &plainPusher{s.densePath, s.rowsPath, o} }

// Weighted returns a Pusher whose contributions have a weight.
func (s *store) Weighted(weight float32, counted bool) Pusher {
	return s.Step(PushOptions{Weight: weight, Counted: counted})
}

// Close leaves the job.
func (s *store) Close() error { return s.leaveJob(true, "") }

// Abort leaves the job, and fails it.
func (s *store) Abort(cause error) error {
	if cause == nil {
		return errors.New("kvstore: abort: the cause is nil, want the error that ended this worker; to leave without an error call Close")
	}
	return s.leaveJob(false, cause.Error())
}

// leaveJob leaves the job: cleanly if ok, else with a reason that fails it.
func (s *store) leaveJob(ok bool, reason string) error {
	if ok && !s.removed.Load() && !attempt.IsClosed(s.membership.node.Done()) {
		s.copies.await(s.keys.sorted(), s.settle)
	}
	if !s.requests.flight.refuse() {
		return nil
	}
	s.end()
	s.profiling.drop()
	// The node itself bounds a clean leave.
	ctx := context.Background()
	if !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, leaveTimeout)
		defer cancel()
	}
	node := s.membership.node
	if attempt.IsClosed(node.Done()) {
		return node.Close()
	}
	if err := node.Leave(ctx, ok, reason); err != nil {
		node.Close()
		return fmt.Errorf("kvstore: close: %w", err)
	}
	return nil
}

// settle waits until the rounds of this worker's pushes to a key have closed.
func (s *store) settle(ctx context.Context, k *key) error {
	if k.dense() {
		return s.densePath.settle(ctx, "close", k)
	}
	return s.PullRows(ctx, k.name, nil, nil)
}

// end ends all parts that run. Calls are refused.
func (s *store) end() {
	s.placement.close()
	s.requests.flight.wait()
	s.hostSums.close()
	s.requests.close()
}

// abandon closes a store whose creation failed, and fails the job: the other workers would wait for
// this one.
func (s *store) abandon(cause error) {
	s.requests.flight.refuse()
	s.end()
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	node := s.membership.node
	node.Leave(ctx, false, cause.Error())
	node.Close()
}

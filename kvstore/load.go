package kvstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/paragon-train/paragon/checkpoint"
	"github.com/paragon-train/paragon/internal/observe/exitreport"
	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/optim"
	"golang.org/x/sync/errgroup"
)

// Load restores what Save wrote.
func (s *checkpoints) Load(ctx context.Context, uri string) error {
	verb := "load " + uri
	if s.member.joining.Load() {
		return s.member.notYet(verb)
	}
	name := s.member.commonNames.next(loadName)
	// No worker's push may be under way when the servers' values are replaced.
	err := s.requests.ask(ctx, verb, func(ctx context.Context) error { return s.member.node.Barrier(ctx, name) })
	if err != nil {
		return err
	}
	if leader := s.member.leader(); leader != s.member.NodeID() {
		return s.awaitLoad(ctx, verb, name, leader)
	}
	err = s.loadFile(ctx, uri)
	result := ""
	if err != nil {
		result = loadFailed
	}
	// The other workers' waits end with the signal, or with the job.
	told := s.requests.ask(ctx, verb, func(ctx context.Context) error { return s.member.node.Signal(ctx, name, result) })
	if err != nil {
		return err
	}
	return told
}

// loadFailed is the value of a load's signal if the leader could not load the file.
const loadFailed = "failed"

// awaitLoad waits until the leader has loaded the file, and then reads each key's round from the
// servers. If the leader is lost before it signals that it is done, the servers may hold a part of
// the file.
func (s *checkpoints) awaitLoad(ctx context.Context, verb, name string, leader NodeID) error {
	await := func(ctx context.Context) error {
		result, err := s.member.node.Await(ctx, name)
		if err == nil && result == loadFailed {
			return fmt.Errorf("%w: the worker that reads the file could not load it; see its error", ErrUnavailable)
		}
		return err
	}
	gone := func(m wire.Membership) bool { return !slices.Contains(counting(m), leader) }
	err := s.requests.ask(ctx, verb, func(ctx context.Context) error {
		changed, err := s.member.unlessChanged(ctx, gone, await)
		// The scheduler may notice the loss before this worker does.
		var refusal *transport.Refusal
		if !changed && !(errors.As(err, &refusal) && refusal.Code == wire.CodeUnavailable) {
			return err
		}
		// The leader may have finished before it was lost or left.
		last, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if await(last) == nil {
			return nil
		}
		return fmt.Errorf("%w: the worker that read the file (node %d) was lost before it finished: some keys may be loaded and others not; "+
			"load again", ErrUnavailable, leader)
	})
	if err != nil {
		return err
	}
	return forKeys(ctx, s.keys.sorted(), func(ctx context.Context, k *key) error {
		if err := s.initialiser.findRound(ctx, k); err != nil {
			return err
		}
		return s.afterLoad(ctx, k)
	})
}

// smallAtOnce is how many small keys are loaded at one time. Each takes the time of its messages,
// with backups those of three processes.
const smallAtOnce = 64

// forKeys calls do for all keys, for small ones at the same time, until one fails or ctx ends.
// Larger ones come one after the other, which bounds the memory. Without an error do has been
// called for all of them.
func forKeys(ctx context.Context, keys []*key, do func(ctx context.Context, k *key) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(smallAtOnce)
	for _, k := range keys {
		// Where a key has failed the group has its error already.
		if err := ctx.Err(); err != nil {
			group.Go(func() error { return fmt.Errorf("kvstore: load: %w", err) })
			break
		}
		if k.dense() && k.small() {
			group.Go(func() error { return do(ctx, k) })
		} else if err := do(ctx, k); err != nil {
			group.Go(func() error { return err })
		}
	}
	return group.Wait()
}

// afterLoad drops the key's residuals, and allows one more Init of it.
func (s *checkpoints) afterLoad(ctx context.Context, k *key) error {
	if err := k.lock(ctx, "load"); err != nil {
		return err
	}
	defer k.unlock()
	k.dropResiduals()
	s.keys.allowInit(k.name)
	return nil
}

// loadFile checks all of the file, and only then writes it to the servers: a file that is refused
// changes nothing. It runs on one worker while all others wait for its signal, so that nobody
// pushes.
func (s *checkpoints) loadFile(ctx context.Context, uri string) error {
	file, err := checkpoint.OpenURI(ctx, uri)
	if err != nil {
		return finalLoad(fmt.Errorf("kvstore: load %s: %w", uri, wrapUnsupported(err)))
	}
	defer file.Close()
	saved, cfg, err := checkFile(file, s.keys, s.rules.optimizer())
	if err != nil {
		return exitreport.Final(exitreport.NoResume, finalLoad(fmt.Errorf("kvstore: load %s: %w", uri, err)))
	}
	if err := file.Verify(); err != nil {
		return finalLoad(fmt.Errorf("kvstore: load %s: %w", uri, err))
	}
	if !file.HasChecksums() {
		s.cfg.logger.Warn("kvstore: load: the file has no checksums (an older version of Paragon wrote it); it is not verified", "file", uri)
	}
	keys, savedOf, err := s.placeSaved(ctx, saved)
	if err != nil {
		return err
	}
	err = forKeys(ctx, keys, func(ctx context.Context, k *key) error {
		x := savedOf[k]
		if err := s.states.write(ctx, k, file, x, s.initialSlots(x)); err != nil {
			return err
		}
		k.setRound(x.Round)
		k.takeShape(x.Shape)
		return s.afterLoad(ctx, k)
	})
	if err != nil {
		return err
	}
	s.keys.add(keys...)
	return s.control.restoreRates(ctx, cfg, s.rules.loaded(cfg))
}

// placeSaved returns the keys of a file. Those that this worker has not initialised are placed.
func (s *checkpoints) placeSaved(ctx context.Context, saved []savedKey) (keys []*key, savedOf map[*key]*savedKey, err error) {
	savedOf = make(map[*key]*savedKey, len(saved))
	for i := range saved {
		x := &saved[i]
		k := s.keys.get(x.Name)
		if k == nil {
			if k, err = s.initialiser.place(ctx, x.declare()); err != nil {
				return nil, nil, err
			}
		}
		for j, place := range k.shards {
			if err := k.fitsFrame("load", j, 4*int(place.Length)*(1+len(x.Slots))); err != nil {
				return nil, nil, err
			}
		}
		keys, savedOf[k] = append(keys, k), x
	}
	return keys, savedOf, nil
}

// initialSlots returns the optimizer whose initial slots a key gets that was saved without slots;
// nil if there is none.
func (s *checkpoints) initialSlots(x *savedKey) *optim.Optimizer {
	if x.Average || len(x.Slots) > 0 {
		return nil
	}
	return s.rules.newOptimizer()
}

package kvstore

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/paragon-train/paragon/internal/member/rollcall"
	"github.com/paragon-train/paragon/sampler"
)

// SamplerConfig configures an ElasticSampler. All workers give the same one.
type SamplerConfig struct {
	// Examples is how many the data set has.
	Examples int
	// Batch is how many examples a step of one worker has; the last steps of an epoch may have
	// fewer.
	Batch int
	// Epochs is the number of passes over the data set in all.
	Epochs int
	// First is the epoch to begin with, of a run that goes on from a checkpoint.
	First int
	// Cuts are those of that epoch in a run that goes on from the middle of it (ElasticSampler.Cuts),
	// also with another number of workers: what they have used is not handed out again. Steps is
	// the number of steps done before.
	Cuts  []sampler.Cut
	Steps uint64
	// Seed is that of the order in which the examples are read.
	Seed uint64
	// Order is the order of the examples of an epoch; the default is sampler.Permutation.
	Order sampler.Order
	// Stops says that the program, which calls Next, knows of SamplerTurn.Stop.
	Stops bool
}

// Validate names the first field that cannot be.
func (c *SamplerConfig) Validate() error {
	switch {
	case c.Examples < 1:
		return fmt.Errorf("kvstore: SamplerConfig.Examples is %d, want at least 1", c.Examples)
	case c.Batch < 1:
		return fmt.Errorf("kvstore: SamplerConfig.Batch is %d, want at least 1", c.Batch)
	case c.Epochs < 1:
		return fmt.Errorf("kvstore: SamplerConfig.Epochs is %d, want at least 1", c.Epochs)
	case c.First < 0 || c.First > c.Epochs:
		return fmt.Errorf("kvstore: SamplerConfig.First is %d, want 0 to %d", c.First, c.Epochs)
	}
	if _, err := sampler.Divide(c.Examples, c.Cuts, 1, 0); err != nil {
		return fmt.Errorf("kvstore: SamplerConfig.Cuts: %w", err)
	}
	return nil
}

// An ElasticSampler hands the examples of a data set to the workers of a job so that each is used
// exactly once an epoch, while workers join, leave and are lost. It is for training loops of one's
// own; worker.Fit does the same for a worker.Feed.
//
//	// All keys have been initialised, and the optimizer was set.
//	examples, err := kvstore.NewElasticSampler(ctx, kv, kvstore.SamplerConfig{Examples: len(xs), Batch: 32, Epochs: 10, Seed: 1})
//	err = kv.Pull(ctx, "weight", weight) // what the others have come to, on a worker that joins
//	for epoch := range examples.Epochs() {
//		for batch := range examples.Batches(ctx) {
//			// ... the sum of the gradients of the examples that batch names ...
//			err = examples.Pusher().PushPull(ctx, "weight", gradients, weights)
//		}
//		// where Err is nil every worker has come to the end of the epoch
//	}
//	err = examples.Err()
//
// A step is one turn of the inner loop. In each step every worker pushes once to the same keys, by
// Pusher; one that has no more examples while others do gets an empty batch and pushes zeros, since
// a round needs a contribution of every worker. All pushes and pulls of a step have returned when
// the turn ends. Then the workers agree whether the membership changes now. If so, those that are
// ready join, those that were asked to leave are out (Err is ErrRemoved), and what is left of the
// epoch is divided over the workers that there are; Rank and NumWorkers of the store are new. The
// examples of a step that a lost worker did not finish are handed out again, unless the step's
// contributions had come to all keys.
//
// A turn that ends by break or return is no finished step: its examples have not been used. In a
// job of one worker, and in an asynchronous store, which has no step that all workers have in
// common, the shares stay as they are. An ElasticSampler belongs to one goroutine. A program that
// cannot be these loops calls Next.
type ElasticSampler struct {
	job     samplerJob
	weigher samplerWeigher
	cfg     SamplerConfig
	// roll is nil where the workers stay as they are.
	roll *rollcall.Roll
	err  error

	// step is the next step of the epoch, and cuts are the epoch's. steps counts those done in
	// all.
	epoch       int
	step, steps uint64
	cuts        []sampler.Cut
	// past are those of cuts that were made before this job, up to the first change; nil: none.
	past []sampler.Cut

	// A division is what is left of the epoch after the cuts, shared by the workers. own is
	// this worker's share, used how many examples of it were used, and next goes over the rest;
	// nil: it was not asked for yet.
	own  *sampler.Sampler
	next *sampler.Cursor
	used int
	// last is the step with which the division ends: the longest share is used up.
	last uint64
	// workers is how many share the division.
	workers int
	// earlier has for each rank the examples used since the division of the last change, in
	// epochs before this one; nil: none.
	earlier []uint64

	// pusher contributes with weight, the number of examples of batch.
	batch  []int
	pusher Pusher
	weight int

	// stopping is what Next has come to on the way to an early end of all workers.
	stopping samplerStopping

	// inEpochs and inBatches say that a turn of that loop is under way, and phase is what Next
	// has come to.
	inEpochs, inBatches bool
	phase               samplerPhase

	// divisions counts the divisions that this worker had a share of. joined says that workers
	// have joined with the last one, and survivor is the lowest rank that was there before.
	divisions uint64
	joined    bool
	survivor  int
	// from is the first step of the division, and whole the number of examples of all shares.
	from  uint64
	whole int
	// ahead reads the share for Examples, of which its next one is at aheadAt; nil: it was not
	// read since the division.
	ahead   *sampler.Cursor
	aheadAt int
}

// A samplerJob is what an ElasticSampler needs of a Store to know which examples are whose.
type samplerJob interface {
	Rank() int
	NumWorkers() int
	Division() Division
	AwaitPending(ctx context.Context) (uint64, error)
	Arrive(ctx context.Context, a Arrival) error
	Progress(steps, epoch uint64)
	StopRequested() <-chan struct{}
}

// A samplerWeigher makes the Pushers of its steps.
type samplerWeigher interface {
	Weighted(weight float32, counted bool) Pusher
	Step(PushOptions) Pusher
}

// NewElasticSampler returns once this worker counts: at once, unless it joins a running job. Every
// worker calls it once, when it has initialised all keys, and pulls their values after it.
// ErrRemoved is in the error's chain if this worker was asked to leave before it counted,
// ErrFinished if the job ended in order before.
func NewElasticSampler(ctx context.Context, store Store, cfg SamplerConfig) (*ElasticSampler, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if store.LocalSteps() > 0 {
		return nil, fmt.Errorf("kvstore: elastic sampler: %w: the store has local steps (WithLocalSteps), and all workers push in every step; use worker.Fit", ErrUnsupported)
	}
	// Sums with the batch do not overflow then.
	cfg.Batch = min(cfg.Batch, cfg.Examples)
	s := &ElasticSampler{job: store, weigher: store, cfg: cfg, epoch: cfg.First, steps: cfg.Steps, cuts: cfg.Cuts, past: cfg.Cuts, batch: make([]int, cfg.Batch)}
	switch kind := store.Type(); {
	case kind == "dist_sync" || kind == "dist_device_sync":
		var err error
		if s.roll, err = rollcall.New(ctx, store); errors.Is(err, ErrDuplicateInit) {
			return nil, fmt.Errorf("kvstore: elastic sampler: the store already has an ElasticSampler or worker.Fit, want only one in the life of a store: %w", err)
		} else if err != nil {
			return nil, fmt.Errorf("kvstore: elastic sampler: %w", err)
		}
	case store.Joining():
		return nil, fmt.Errorf("kvstore: elastic sampler: %w: this worker joins a running job with store %s, want dist_sync", ErrUnsupported, kind)
	}
	if err := store.Ready(ctx); err != nil {
		return nil, err
	}
	if s.roll != nil {
		s.roll.Expect()
		if d := store.Division(); d.Change > 0 {
			s.epoch, s.step, s.steps, s.cuts, s.past = int(d.Epoch), d.Step, d.Steps, d.Cuts, nil
			s.stopping.join(d.Stop)
			if err := s.sameOrder(d); err != nil {
				return nil, fmt.Errorf("kvstore: elastic sampler: %w", err)
			}
			if err := s.meet(ctx, false); err != nil {
				return nil, fmt.Errorf("kvstore: elastic sampler: %w", err)
			}
		}
	}
	return s, s.divide()
}

// Epochs returns the epochs that are left, from the one in which this worker begins. The loop over
// them takes all Batches of each. It ends with the last one, or with an error: see Err.
func (s *ElasticSampler) Epochs() iter.Seq[int] {
	return func(yield func(int) bool) {
		if s.inEpochs {
			s.fail("epoch %d: Epochs was called within a loop over Epochs", s.epoch)
			return
		}
		if s.driven("Epochs") {
			return
		}
		s.inEpochs = true
		defer func() { s.inEpochs = false }()
		for s.err == nil && s.epoch < s.cfg.Epochs {
			if !yield(s.epoch) || s.err != nil {
				return
			}
			if s.step < s.last {
				s.fail("epoch %d: step %d of %d was not taken, want all Batches of an epoch before the next one", s.epoch, s.step, s.last)
				return
			}
			s.nextEpoch()
		}
	}
}

// Batches returns the batches of this worker that are left of the epoch, each as the numbers of its
// examples, from 0. A batch is valid until the next one. It ends with the epoch, or with an error:
// see Err.
func (s *ElasticSampler) Batches(ctx context.Context) iter.Seq[[]int] {
	return func(yield func([]int) bool) {
		if s.inBatches {
			s.fail("epoch %d: step %d: Batches was called within a loop over Batches", s.epoch, s.step)
			return
		}
		if s.driven("Batches") {
			return
		}
		s.inBatches = true
		defer func() { s.inBatches = false }()
		// The last turn of an earlier loop may have been left: its examples come again.
		s.next = nil
		for s.err == nil && s.epoch < s.cfg.Epochs && s.step < s.last {
			s.begin()
			if !yield(s.batch) || s.err != nil {
				return
			}
			s.err = s.finish(ctx)
		}
	}
}

// begin finds the batch of the next step.
func (s *ElasticSampler) begin() {
	if s.next == nil {
		s.next = s.own.Cursor(s.epoch, s.used)
	}
	s.batch = s.batch[:s.next.Next(s.batch[:s.cfg.Batch])]
	if n := len(s.batch); s.pusher == nil || s.weight != n {
		s.pusher, s.weight = s.weigher.Weighted(float32(n), s.roll != nil), n
	}
}

// Pusher contributes to the rounds of this step, from any goroutine. A contribution weighs as many
// as the batch has examples: with optim.Mean the servers divide the sum of gradients by the
// examples of all workers. They add up the weights, so that it is known which examples a worker had
// used if it is lost.
func (s *ElasticSampler) Pusher() Pusher {
	if s.pusher == nil {
		return noStep{}
	}
	return s.pusher
}

// Weighted is Pusher for a loss that was divided by something else than the number of examples,
// such as the number of labels or tokens of the batch: that is the weight of a contribution, and
// the examples are counted apart.
func (s *ElasticSampler) Weighted(weight float32) Pusher {
	if s.pusher == nil {
		return noStep{}
	}
	return s.weigher.Step(PushOptions{Weight: weight, Examples: s.weight, Counted: s.roll != nil})
}

// noStep is the Pusher before the first step.
type noStep struct{}

var errNoStep = errors.New("kvstore: elastic sampler: a push before the first step: push within the loop over Batches")

func (noStep) Push(context.Context, string, ...[]float32) error                 { return errNoStep }
func (noStep) PushPull(context.Context, string, [][]float32, [][]float32) error { return errNoStep }
func (noStep) PushPullMany(context.Context, []Entry) error                      { return errNoStep }
func (noStep) PushMany(context.Context, []Entry) error                          { return errNoStep }
func (noStep) PushRows(context.Context, string, []int64, []float32) error       { return errNoStep }

// Steps is the number of steps done in all, those before this worker joined included.
func (s *ElasticSampler) Steps() uint64 { return s.steps }

// Err says what ended the loops; nil: all epochs were done. It is ErrRemoved where this worker was
// asked to leave: all its steps count, and the others go on. Leave knows what to do.
func (s *ElasticSampler) Err() error { return s.err }

// fail ends the loops because of a misuse.
func (s *ElasticSampler) fail(format string, args ...any) {
	s.err = errors.Join(s.err, fmt.Errorf("kvstore: elastic sampler: "+format, args...))
}

// finish ends a step, and makes the change of the membership that is due.
func (s *ElasticSampler) finish(ctx context.Context) error {
	s.used += len(s.batch)
	s.step++
	s.steps++
	s.job.Progress(s.steps, uint64(s.epoch))
	change, err := false, ctx.Err()
	if err == nil {
		change, err = s.callRoll(ctx)
	}
	if err == nil && change {
		err = s.change(ctx)
	}
	if err != nil {
		return fmt.Errorf("kvstore: elastic sampler: epoch %d after step %d: %w", s.epoch, s.step, err)
	}
	return nil
}

// change makes the pending change: every worker does after the same step.
func (s *ElasticSampler) change(ctx context.Context) error {
	number, err := s.job.AwaitPending(ctx)
	if err != nil {
		return err
	}
	err = s.job.Arrive(ctx, Arrival{Change: number, Steps: s.steps, Epoch: uint64(s.epoch), Step: s.step, Used: uint64(s.used), Stop: s.stopping.agreed != NoStop, Earlier: s.earlier, Cuts: s.past, Order: s.own.Order().String()})
	if err != nil {
		return err
	}
	d := s.job.Division()
	if d.Epoch != uint64(s.epoch) || d.Steps != s.steps {
		return fmt.Errorf("the new division is of epoch %d after %d steps, want epoch %d after %d", d.Epoch, d.Steps, s.epoch, s.steps)
	}
	if err := s.sameOrder(d); err != nil {
		return err
	}
	s.roll.Expect()
	s.cuts, s.past, s.earlier = d.Cuts, nil, nil
	if err := s.meet(ctx, true); err != nil {
		return err
	}
	return s.divide()
}

// meet finds out whether workers have joined with a change, and who knows what they do not.
func (s *ElasticSampler) meet(ctx context.Context, before bool) (err error) {
	s.survivor, s.joined, err = s.roll.Survivor(ctx, before)
	return err
}

// sameOrder is an error if the job divides its examples in another order than this worker. There is
// none if all that knew it were lost.
func (s *ElasticSampler) sameOrder(d Division) error {
	if own := s.cfg.Order.String(); d.Order != own && d.Order != "" {
		return fmt.Errorf("SamplerConfig.Order is %s, and the job's order is %q, want the same on all workers", own, d.Order)
	}
	return nil
}

// nextEpoch begins an epoch, of which each worker has the share of its rank.
func (s *ElasticSampler) nextEpoch() {
	if s.roll != nil {
		if s.earlier == nil {
			s.earlier = make([]uint64, s.workers)
		}
		for rank := range s.earlier {
			part, err := s.part(rank)
			if s.err = errors.Join(s.err, err); err == nil {
				s.earlier[rank] += uint64(part.Len())
			}
		}
	}
	s.epoch, s.step, s.cuts, s.past = s.epoch+1, 0, nil, nil
	s.joined, s.survivor = false, 0
	s.err = errors.Join(s.err, s.divide())
}

// divide finds out which examples are this worker's.
func (s *ElasticSampler) divide() error {
	s.workers = s.job.NumWorkers()
	var err error
	if s.own, err = s.part(s.job.Rank()); err != nil {
		return err
	}
	s.next, s.ahead, s.used = nil, nil, 0
	s.divisions++
	longest := s.own
	s.whole = s.own.Len()
	// All take part in every round, until the longest share is used up, which is rank 0's.
	if s.roll != nil {
		if longest, err = s.part(0); err != nil {
			return err
		}
		all, err := s.share(1, 0)
		if err != nil {
			return err
		}
		s.whole = all.Len()
	}
	s.from = s.step
	s.last = s.step + uint64((longest.Len()+s.cfg.Batch-1)/s.cfg.Batch)
	return nil
}

// part is the share of a rank.
func (s *ElasticSampler) part(rank int) (*sampler.Sampler, error) { return s.share(s.workers, rank) }

// share is part of what is left of the epoch, divided by so many.
func (s *ElasticSampler) share(parts, part int) (*sampler.Sampler, error) {
	return sampler.Divide(s.cfg.Examples, s.cuts, parts, part, sampler.Seed(s.cfg.Seed), sampler.Ordered(s.cfg.Order))
}

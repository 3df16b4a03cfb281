package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/sampler"
)

// past is what a resumed run had used of its epoch before: the scheduler of this job knows nothing of it.
type past struct {
	epoch  int
	cuts   []sampler.Cut
	offset []int // by part of the first division in this job: examples used before; empty: none
}

// real returns the cuts of an epoch, of which the scheduler knows those made in this job.
func (p *past) real(epoch int, told []sampler.Cut) []sampler.Cut {
	if epoch != p.epoch || len(p.cuts) == 0 && len(p.offset) == 0 {
		return told
	}
	cuts := slices.Concat(p.cuts, told)
	if len(told) > 0 {
		first := &cuts[len(p.cuts)]
		first.Used = slices.Clone(first.Used)
		for i := range min(len(p.offset), len(first.Used)) {
			first.Used[i] += p.offset[i]
		}
	}
	return cuts
}

// offsetOf returns what a part of a division had used before this job.
func (p *past) offsetOf(epoch, division, part int) int {
	if epoch != p.epoch || division != len(p.cuts) || part >= len(p.offset) {
		return 0
	}
	return p.offset[part]
}

// numbers writes p down for workers that join; readPast reads it.
func (p *past) numbers() []uint64 {
	list := []uint64{uint64(p.epoch), uint64(len(p.offset))}
	for _, n := range p.offset {
		list = append(list, uint64(n))
	}
	return append(list, cutNumbers(p.cuts)...)
}

func readPast(list []uint64) (p past) {
	p.epoch = int(list[0])
	n := min(int(list[1]), len(list)-2)
	for _, x := range list[2 : 2+n] {
		p.offset = append(p.offset, int(x))
	}
	p.cuts = readCuts(list[2+n:])
	return p
}

// cutNumbers writes cuts down: each as its parts and what these used.
func cutNumbers(cuts []sampler.Cut) (list []uint64) {
	for _, cut := range cuts {
		list = append(list, uint64(cut.Parts))
		for _, n := range cut.Used {
			list = append(list, uint64(n))
		}
	}
	return list
}

func readCuts(list []uint64) (cuts []sampler.Cut) {
	for len(list) > 0 {
		cut := sampler.Cut{Parts: int(list[0])}
		n := min(cut.Parts, len(list)-1)
		for _, x := range list[1 : 1+n] {
			cut.Used = append(cut.Used, int(x))
		}
		cuts, list = append(cuts, cut), list[1+n:]
	}
	return cuts
}

// join makes a worker that came to a running job a member of it: when it returns, this worker is where the others are.
func (r *run) join(ctx context.Context) (err error) {
	early, ready := r.leave.beforeReady(ctx)
	if _, err = r.trainer.broadcast(early, nil); err != nil { // its key belongs to those that a checkpoint holds
		return fmt.Errorf("worker: join: %w", err)
	}
	if r.stop, err = newAgreement(early, r.trainer); err != nil {
		return err
	}
	if err := r.trainer.initMembers(early); err != nil {
		return err
	}
	if err := ready(); err != nil {
		return fmt.Errorf("worker: join: %w", err)
	}
	if err := r.elastic.Ready(ctx); err != nil {
		return fmt.Errorf("worker: join: %w", err)
	}
	if err := r.trainer.pullFresh(ctx); err != nil {
		return err
	}
	division := r.elastic.Division()
	r.trainer.setSteps(division.Steps)
	r.rank, r.workers, r.epoch = r.trainer.cfg.Store.Rank(), r.trainer.cfg.Store.NumWorkers(), int(division.Epoch)
	if err := r.meet(ctx, false); err != nil {
		return err
	}
	r.joined, r.stale = true, true
	r.cuts = r.past.real(r.epoch, r.toldCuts())
	r.trainer.cfg.Logger.Info("joined the training", "rank", r.rank, "workers", r.workers, "epoch", r.epoch, "step", r.before, "steps", division.Steps)
	return nil
}

// toldCuts are the cuts of the epoch that the scheduler knows.
func (r *run) toldCuts() []sampler.Cut { return r.elastic.Division().Cuts }

// meet tells the other workers of a new division who this worker is, and those that have just come what only the others know.
func (r *run) meet(ctx context.Context, start bool) error {
	nodes, used, err := r.trainer.members(ctx, r.rank, r.workers, r.bases[r.elastic.NodeID()])
	if err != nil {
		return err
	}
	bases := map[kvstore.NodeID]uint64{}
	if slices.Contains(nodes, 0) { // lost already: what was known of it holds
		bases = r.bases
	}
	for i, node := range nodes {
		if node != 0 {
			bases[node] = used[i]
		}
	}
	r.nodes, r.bases, r.present = nodes, bases, r.workers
	if start {
		return nil
	}
	knows := r.stop.pending != nil // set once this worker has begun
	past := r.past.numbers()
	numbers := []uint64{uint64(r.before), 0, uint64(len(past))}
	if r.stopping {
		numbers[1] = 1
	}
	if err := r.trainer.share(ctx, knows, numbers); err != nil {
		return err
	}
	if !knows {
		r.before, r.stopping, past = int(numbers[0]), numbers[1] != 0, make([]uint64, numbers[2])
	}
	if numbers[2] < 2 {
		return nil // nobody is left who knew
	}
	if err := r.trainer.share(ctx, knows, past); err != nil {
		return err
	}
	r.past = readPast(past)
	return nil
}

// divide tells the feed of another division, if there is one.
func (r *run) divide() error {
	if !r.stale || r.divided == nil {
		r.stale = false
		return nil
	}
	r.stale = false
	if err := r.divided.Divided(r.rank, r.workers, r.cuts); err != nil {
		return fmt.Errorf("worker: epoch %d: divide what is left over %d workers: %w", r.epoch, r.workers, err)
	}
	return nil
}

// nextEpoch moves on to the start of the next epoch.
func (r *run) nextEpoch() {
	if r.divided != nil && r.elastic != nil {
		for part, node := range r.nodes {
			if node != 0 {
				r.bases[node] += uint64(r.divided.Used(part, r.step) - r.past.offsetOf(r.epoch, len(r.cuts), part))
			}
		}
	}
	r.stale = r.stale || len(r.cuts) > 0
	r.epoch, r.step, r.before, r.used, r.cuts, r.past = r.epoch+1, 0, 0, 0, nil, past{}
}

// changeBetweenEpochs makes the changes for a feed that cannot be divided in the middle of an epoch.
func (r *run) changeBetweenEpochs(ctx context.Context) error {
	for {
		changed, err := r.settle(ctx, &epochRun{from: time.Now()})
		if err != nil || !changed {
			return err
		}
	}
}

// settle looks, after a step whose exchange is done on every worker, whether all of them have done it and nothing is pending. If not
// it makes the change; then all workers, also those that have just come, begin with what is left of the epoch.
func (r *run) settle(ctx context.Context, e *epochRun) (changed bool, err error) {
	if r.elastic == nil {
		return false, nil
	}
	if err := r.trainer.Flush(ctx); err != nil {
		return false, err
	}
	for {
		n, change, err := r.trainer.present(ctx, r.rank, r.workers)
		switch {
		case err != nil:
			return false, err
		case change:
			return true, r.boundary(ctx, e)
		case n >= r.present:
			return false, nil
		}
		// Those who miss have been lost, perhaps in the middle of their last step, or are done and have left. The news tells.
		if err := r.elastic.AwaitMembers(ctx, n); err != nil {
			return false, err
		}
		r.present = n
	}
}

// boundary makes the pending change: all workers call it after the same step, and are members of the next generation, with the
// same division of what is left, when it returns.
func (r *run) boundary(ctx context.Context, e *epochRun) error {
	if err := r.trainer.Sync(ctx); err != nil {
		return err
	}
	span := r.closeSpan(e)
	if err := r.saver.wasRead(); err != nil {
		return err
	}
	change, err := r.elastic.AwaitPending(ctx)
	if err != nil {
		return fmt.Errorf("worker: epoch %d step %d: %w", r.epoch, r.before+r.step, err)
	}
	arrival := kvstore.Arrival{Change: change, Steps: r.trainer.Steps(), Epoch: uint64(r.epoch), Bases: r.bases}
	if r.divided != nil {
		if want := r.divided.Used(r.rank, r.step); r.used != want {
			return fmt.Errorf("worker: epoch %d step %d: feed %T brought %d examples in %d steps of the division, and says that these use %d", r.epoch, r.before+r.step, r.cfg.Feed, r.used, r.step, want)
		}
		arrival.Used = uint64(r.used - r.past.offsetOf(r.epoch, len(r.cuts), r.rank))
	}
	err = r.elastic.Arrive(ctx, arrival)
	if errors.Is(err, ErrRemoved) {
		r.trainer.cfg.Logger.Info("removed from the job: all steps of this worker count, the others go on", "rank", r.rank, "epoch", r.epoch, "step", r.before+r.step)
	}
	if err != nil {
		return fmt.Errorf("worker: epoch %d step %d: %w", r.epoch, r.before+r.step, err)
	}
	return r.take(ctx, span)
}

// take makes this worker's part that of the new division.
func (r *run) take(ctx context.Context, span Span) error {
	division, told := r.elastic.Division(), r.toldCuts()
	if division.Epoch != uint64(r.epoch) || division.Steps != r.trainer.Steps() {
		return fmt.Errorf("worker: epoch %d after %d steps: the new division is of epoch %d after %d steps, want the same", r.epoch, r.trainer.Steps(), division.Epoch, division.Steps)
	}
	workers := r.workers
	if r.divided != nil {
		if err := r.cut(told); err != nil {
			return err
		}
	}
	r.rank, r.workers = r.trainer.cfg.Store.Rank(), r.trainer.cfg.Store.NumWorkers()
	logger := r.trainer.cfg.Logger
	if r.workers != workers {
		logger.Info(fmt.Sprintf("Resetting data iterator as worker count changed from %d to %d", workers, r.workers), "rank", r.rank, "epoch", r.epoch, "step", r.before)
	} else {
		logger.Info("the workers changed, their number did not", "workers", workers, "rank", r.rank, "epoch", r.epoch, "step", r.before)
	}
	if err := r.divide(); err != nil {
		return err
	}
	if r.cfg.OnMembership != nil {
		r.cfg.OnMembership(r.rank, r.workers)
	} else if r.divided == nil && r.workers != workers {
		return fmt.Errorf("worker: epoch %d: the number of workers changed from %d to %d, and feed %T cannot share the examples anew: make it a worker.DividedFeed or set FitConfig.OnMembership", r.epoch, workers, r.workers, r.cfg.Feed)
	}
	info := MembershipInfo{Epoch: r.epoch, Step: r.before + r.step, Rank: r.rank, Before: workers, Workers: r.workers, Span: span}
	for _, o := range r.cfg.Observers {
		if o, ok := o.(MembershipObserver); ok {
			o.Membership(info)
		}
	}
	return r.meet(ctx, false)
}

// cut ends the division that runs, where the scheduler knows these cuts of the epoch now.
func (r *run) cut(told []sampler.Cut) error {
	before := len(r.cuts)
	if r.epoch == r.past.epoch {
		before -= len(r.past.cuts)
	}
	if len(told) == before { // nobody has used anything of this division in this job: no cut
		if before == 0 && r.epoch == r.past.epoch && slices.Max(append([]int{0}, r.past.offset...)) > 0 {
			r.past.cuts, r.past.offset = append(slices.Clone(r.past.cuts), sampler.Cut{Parts: r.workers, Used: r.past.offset}), nil
		}
	}
	cuts := r.past.real(r.epoch, told)
	switch {
	case len(cuts) == len(r.cuts) && r.used == 0:
	case len(cuts) != len(r.cuts)+1 || cuts[len(r.cuts)].Parts != r.workers:
		return fmt.Errorf("worker: epoch %d step %d: the new division has the cuts %v, want one of %d parts after %v", r.epoch, r.before+r.step, cuts, r.workers, r.cuts)
	default:
		cut := cuts[len(r.cuts)]
		r.tellUsed(r.cuts, r.workers, func(part int) int { return cut.Used[part] })
	}
	if len(told) > before {
		for part, node := range r.nodes {
			if node != 0 {
				r.bases[node] += uint64(told[before].Used[part])
			}
		}
	}
	r.before, r.step, r.used, r.cuts, r.stale = r.before+r.step, 0, 0, cuts, true
	return nil
}

// tellUsed hands OnUsed what the steps of a division have used in this job.
func (r *run) tellUsed(cuts []sampler.Cut, workers int, used func(part int) int) {
	if r.cfg.OnUsed == nil || r.divided == nil {
		return
	}
	for part := range workers {
		examples := r.divided.Examples(r.epoch, part, used(part))
		examples = examples[min(r.past.offsetOf(r.epoch, len(cuts), part), len(examples)):]
		r.cfg.OnUsed(Used{Epoch: r.epoch, Division: len(cuts), Part: part, Examples: examples})
	}
}

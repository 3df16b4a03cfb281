package worker

import (
	"fmt"

	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/sampler"
)

// A seat is a worker's rank among some number of workers: those of a division, or those of the
// newest membership. The two differ between a change and the division that follows it.
type seat struct{ rank, workers int }

// seatIn is this worker's seat in the newest membership of a store.
func seatIn(store interface {
	Rank() int
	NumWorkers() int
}) seat {
	return seat{store.Rank(), store.NumWorkers()}
}

// A division is this worker's share of what remains of a pass over the data after some cuts, and
// how far its steps have come in it.
//
// All workers have the same division and, between two steps, are after the same step of it; only
// their ranks differ. What a division says has been used is what the scheduler divides anew, so it
// counts an example when its step is done, whether or not the feed has read further.
type division struct {
	feed Feed
	// divided is feed, or nil if that is not a DividedFeed. Then the workers share no examples
	// here: only seat, pass, step and before have a meaning.
	divided DividedFeed
	// onUsed is FitConfig.OnUsed, or nil.
	onUsed func(Used)
	// elastic says that the scheduler follows what is used, since workers may be lost.
	elastic bool

	seat seat
	// pass is the number of the pass over the data. Scheduler and sampler call it the epoch.
	pass int
	// step is the next step, from the start of the division, and before the steps of the pass
	// before that, as far as this worker knows.
	step, before int
	// cuts are those of the pass.
	cuts []sampler.Cut
	// used are the examples of this worker's share that its steps have used.
	used  int
	state feedState
	past  past
	// earlier has, by part, the examples used since the division was made in passes before this
	// one. It is nil if there were none.
	earlier []uint64
	// segments are those of a division that was resumed, until the feed has them.
	segments []Segment
}

// A feedState says whether a feed has the division that holds.
type feedState uint8

const (
	// feedCurrent: it reads what the division says.
	feedCurrent feedState = iota
	// feedOutdated: it has to be divided anew before it begins.
	feedOutdated
)

// past is the position in the pass at which a resumed run began. The scheduler learns of it at the
// first change; from then on it is part of the division.
type past struct {
	// cuts are those that the pass had.
	cuts []sampler.Cut
	// used are the examples used, by part of the division; empty: none.
	used []int
}

// of returns how many examples a part had used.
func (p *past) of(part int) int {
	if part < len(p.used) {
		return p.used[part]
	}
	return 0
}

func newDivision(feed Feed, onUsed func(Used), elastic bool) *division {
	d := &division{feed: feed, onUsed: onUsed, elastic: elastic}
	d.divided, _ = feed.(DividedFeed)
	return d
}

// String says where the next step is, as errors do.
func (d *division) String() string { return fmt.Sprintf("epoch %d step %d", d.pass, d.stepOfPass()) }

// stepOfPass is the next step, from the start of the pass.
func (d *division) stepOfPass() int { return d.before + d.step }

// over reports whether all steps of the division are done.
func (d *division) over() bool { return d.step >= d.feed.Steps() }

// begin begins at a position of a run that starts, or that resumes with as many steps of the pass
// behind it as past says.
func (d *division) begin(at seat, from position, p past, state feedState) {
	d.seat, d.pass, d.step, d.cuts, d.past, d.state = at, from.Epoch, from.Step, from.Cuts, p, state
}

// join takes the division of the workers that run.
func (d *division) join(at seat, of kvstore.Division) {
	d.seat, d.pass, d.before, d.cuts, d.state = at, int(of.Epoch), int(of.Step), of.Cuts, feedOutdated
}

// divide gives the feed the division, if it has another one. perStep is the number of examples of
// this worker's next steps; 0: as the feed has it.
func (d *division) divide(perStep int) error {
	outdated := d.state == feedOutdated
	if d.state = feedCurrent; !outdated || d.divided == nil {
		return nil
	}
	if err := d.divided.Divided(d.seat.rank, d.seat.workers, d.cuts); err != nil {
		return fmt.Errorf("worker: epoch %d: divide what is left over %d workers: %w", d.pass, d.seat.workers, err)
	}
	if perStep == 0 {
		return nil
	}
	feed := d.divided.(BatchFeed)
	for _, s := range d.segments {
		if err := feed.Resize(s.First, s.PerStep); err != nil {
			return err
		}
	}
	d.segments = nil
	return feed.Resize(d.step, perStep)
}

// recount takes from the feed what the steps before a resume have used.
func (d *division) recount() {
	if d.divided != nil {
		d.used = d.divided.Used(d.seat.rank, d.step)
	}
}

// nextGlobal is how many examples the next step uses on all workers; 0: not known.
func (d *division) nextGlobal() int {
	if d.divided == nil {
		return 0
	}
	global := 0
	for part := range d.seat.workers {
		global += d.divided.Used(part, d.step+1) - d.divided.Used(part, d.step)
	}
	return global
}

// nextOwn is how many examples of this worker's share the next step uses, where the feed may bring
// them in several runs; 0: in one.
func (d *division) nextOwn() int {
	feed, ok := d.feed.(BatchFeed)
	if !ok {
		return 0
	}
	return feed.Used(d.seat.rank, d.step+1) - feed.Used(d.seat.rank, d.step)
}

// nextPass moves on to the start of the next pass. resized: its steps may have other sizes than the
// feed began this one with.
func (d *division) nextPass(resized bool) {
	if d.divided != nil && d.elastic {
		if d.earlier == nil {
			d.earlier = make([]uint64, d.seat.workers)
		}
		for part := range d.earlier {
			d.earlier[part] += uint64(d.divided.Used(part, d.step) - d.past.of(part))
		}
	}
	if len(d.cuts) > 0 || resized {
		d.state = feedOutdated
	}
	d.pass, d.step, d.before, d.used, d.cuts, d.past = d.pass+1, 0, 0, 0, nil, past{}
}

// arrival is what this worker says at a boundary after so many steps in all.
func (d *division) arrival(change, steps uint64, stopping bool) (kvstore.Arrival, error) {
	a := kvstore.Arrival{Change: change, Steps: steps, Epoch: uint64(d.pass), Step: uint64(d.stepOfPass()), Stop: stopping,
		Earlier: d.earlier, Cuts: d.past.cuts, Order: orderOf(d.feed)}
	if d.divided == nil {
		return a, nil
	}
	if want := d.divided.Used(d.seat.rank, d.step); d.used != want {
		return a, fmt.Errorf("worker: %v: feed %T returned %d examples in %d steps of the division, and its Used says %d", d, d.feed, d.used, d.step, want)
	}
	a.Used = uint64(d.used)
	for part := range d.past.used {
		a.Resumed = append(a.Resumed, uint64(d.past.used[part]))
	}
	return a, nil
}

// take ends the division after so many steps in all, and begins the one that the scheduler has made
// of what is left, in this worker's new seat.
func (d *division) take(next kvstore.Division, steps uint64, to seat) error {
	if next.Epoch != uint64(d.pass) || next.Steps != steps {
		return fmt.Errorf("worker: epoch %d after %d steps: the new division is of epoch %d after %d steps, want the same", d.pass, steps, next.Epoch, next.Steps)
	}
	if own := orderOf(d.feed); next.Order != own {
		return fmt.Errorf("worker: epoch %d after %d steps: the order of this worker's examples is %q, and that of the job %q, want the same on all workers", d.pass, steps, own, next.Order)
	}
	if d.divided != nil {
		if err := d.cut(next.Cuts); err != nil {
			return err
		}
	}
	d.past, d.earlier, d.seat = past{}, nil, to
	return nil
}

// cut ends the current division: cuts are those of the pass from now on. There is no new one where
// no example of the division was used.
func (d *division) cut(cuts []sampler.Cut) error {
	n := len(d.cuts)
	switch {
	case len(cuts) == n && d.used == 0:
	case len(cuts) != n+1 || cuts[n].Parts != d.seat.workers:
		return fmt.Errorf("worker: %v: the new division has the cuts %v, want one of %d parts after %v", d, cuts, d.seat.workers, d.cuts)
	default:
		d.tellUsed(func(part int) int { return cuts[n].Used[part] })
	}
	d.before, d.step, d.used, d.cuts, d.state = d.stepOfPass(), 0, 0, cuts, feedOutdated
	return nil
}

// tellAllUsed passes to OnUsed what the division has used up to here.
func (d *division) tellAllUsed() {
	d.tellUsed(func(part int) int { return d.divided.Used(part, d.step) })
}

// tellUsed passes to OnUsed the examples that the steps of the division have used in this job.
func (d *division) tellUsed(used func(part int) int) {
	if d.onUsed == nil || d.divided == nil {
		return
	}
	for part := range d.seat.workers {
		examples := d.divided.Examples(d.pass, part, used(part))
		examples = examples[min(d.past.of(part), len(examples)):]
		d.onUsed(Used{Epoch: d.pass, Division: len(d.cuts), Part: part, Examples: examples})
	}
}

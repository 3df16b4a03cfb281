package shard

import (
	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/optim"
)

// A norms measures the rounds of a shard: the squared norm of each contribution and of their sum,
// which together give the gradient noise scale. Squares are taken while a contribution is added or
// the optimizer runs over the sum, because a pass of their own over memory would cost as much as
// the addition. A shard makes its norms in the first measured round.
//
// The same numbers are added in the same order whether or not a round is measured, so measuring
// never changes a value.
type norms struct {
	measurement
	// newest is what was measured of the newest round.
	newest wire.Norms
	kept   keptSum
	// squares and part are scratch.
	squares f32.AddSquares
	part    optim.State
}

// A measurement is what is known of the norms of an open round's gradients: see wire.Norms. Those
// of weight 0 and those that the guard has refused are left out.
type measurement struct {
	phase measurePhase
	plan  normsPlan
	// count is the number of micro-gradients, and examples the sum of the weights.
	count    uint32
	examples float64
	// sqr is Σ ‖s‖²/m, in the order of the sum.
	sqr float64
	// first has the squares of the round's first contribution, and hostFirst those of the first
	// of the host that is being added up, if they are still to be taken.
	first, hostFirst deferredSquares
	// own says that the newest contribution's squares are taken here, because its worker has
	// not done it; ownWeight is its weight.
	own       bool
	ownWeight float64
	// total is ‖Σ s‖², if totalKnown.
	total      float64
	totalKnown bool
	// last is the round's last contribution, if it is left to the optimizer's update to add it.
	// Only a round that closes at once has one.
	last *Buffer
	// keep says that the sum is to be kept for the next round, see keptSum.
	keep bool
}

// A measurePhase says whether an open round can be measured.
type measurePhase uint8

const (
	// measureUndecided: no contribution has been added.
	measureUndecided measurePhase = iota
	// measureOn: all contributions so far ask for it.
	measureOn
	// measureSpoiled: a contribution did not ask, or its part cannot be told from the others'.
	measureSpoiled
)

// A normsPlan says which squares are to be taken when the sum is applied.
type normsPlan uint8

const (
	// planNothing: the round is not measured.
	planNothing normsPlan = iota
	// planDone: all squares are taken.
	planDone
	// planTotal: those of the sum are to be taken.
	planTotal
	// planDifference: the sum is to be measured against the kept one.
	planDifference
)

// A deferredSquares stands for the squares of a contribution that is a whole sum so far. They are
// taken when the next one is added, in the same pass.
type deferredSquares struct {
	due    bool
	weight float64
}

// A keptSum is the sum of a round with one micro-gradient. The next round's, if it has one too, is
// measured against it: the two are as two micro-gradients of one round (biased by what the update
// between them has changed).
type keptSum struct {
	// data is nil if no sum is kept.
	data   *Buffer
	round  uint64
	weight float64
}

func (k *keptSum) drop() {
	k.data.Release()
	*k = keptSum{}
}

// differencePeriod: in every so many rounds one round's sum is kept and the next one measured
// against it. That takes a pass over both, half of an update's time; in one round of 32 it is below
// 2 % of a round's.
const differencePeriod = 32

// warmRounds is how many rounds must have closed before gradients are preconditioned by their
// second moment; earlier ones are not measured.
const warmRounds = 5

// ofNewest returns the norms of the newest round. A nil norms has measured nothing.
func (n *norms) ofNewest() wire.Norms {
	if n == nil {
		return wire.Norms{}
	}
	return n.newest
}

// keptSum returns the sum that is kept; without data if there is none.
func (n *norms) keptSum() keptSum {
	if n == nil {
		return keptSum{}
	}
	return n.kept
}

// keeps reports whether the sum that is being applied is kept.
func (n *norms) keeps() bool { return n != nil && n.keep }

// on reports whether the open round is measured so far.
func (n *norms) on() bool { return n != nil && n.phase == measureOn }

// addition reports whether a contribution that is about to be added is measured, and remembers that
// the round is or cannot be. begun says that others are in the sum already: without their squares
// it is too late to begin.
func (n *norms) addition(asks, begun bool) bool {
	if !asks || n.phase == measureUndecided && begun {
		n.phase = measureSpoiled
	}
	if n.phase == measureUndecided {
		n.phase = measureOn
	}
	return n.phase == measureOn
}

// firstOf returns the deferred squares of the sum, or of the host's part of it.
func (n *norms) firstOf(host bool) *deferredSquares {
	if host {
		return &n.hostFirst
	}
	return &n.first
}

// tally counts a measured contribution's micro-gradients, and reports whether its squares are to be
// taken here. preconditioned says that they are taken of the gradient divided by the root of the
// second moment: then the worker's norms, which are of gradients as they are, are of no use.
func (n *norms) tally(x *slot, preconditioned bool) (own bool) {
	weight, micro := float64(x.weight), max(x.micro, 1)
	if preconditioned {
		micro = 1
	}
	own = micro == 1 || weight == 0
	if !own && x.verdict == clipped || x.summed && preconditioned {
		n.phase = measureSpoiled
	}
	if weight > 0 {
		n.count += micro
		n.examples += weight
	}
	switch {
	case !own:
		n.sqr += x.microSqr
	case x.summed:
		n.add(x.sqr, weight)
	}
	return own && !x.summed
}

// take takes the squares of an addition to a sum, as far as they are wanted. first is of the sum's
// first contribution.
func (n *norms) take(first *deferredSquares, squares optim.Squares) {
	if first.due {
		first.due = false
		n.add(squares.Before, first.weight)
	}
	if n.own {
		n.add(squares.Added, n.ownWeight)
	}
	if n.totalKnown {
		n.total = squares.After
	}
}

// add adds the squared norm of a contribution. One of weight 0 that is not all zeros is in the sum
// and counts nothing, so the round cannot be measured.
func (n *norms) add(sqr, weight float64) {
	switch {
	case weight > 0:
		n.sqr += sqr / weight
	case sqr != 0:
		n.phase = measureSpoiled
	}
}

// choose decides, before the sum is applied as round number step, whether the round is measured,
// and whether its sum is kept. ready says that there is a sum, and that the optimizer's second
// moment is warm.
func (n *norms) choose(step uint64, ready bool) {
	n.newest, n.plan = wire.Norms{}, planNothing
	switch {
	case n.phase != measureOn || n.count == 0 || !ready:
	case n.count > 1:
		n.plan = planTotal
		if n.totalKnown {
			n.plan = planDone
		}
	case n.kept.data != nil && n.kept.round+1 == step:
		n.plan = planDifference
		return
	default:
		n.keep = step%differencePeriod == 0
	}
	n.kept.drop()
}

// wants reports whether squares are still to be taken when the sum is applied.
func (n *norms) wants() bool { return n != nil && n.plan > planDone }

// squaresPart values of the sum, the kept one, the value and an optimizer's slots fit the
// second-level cache. It is a multiple of 32.
const squaresPart = 4096

// takeSquares takes the squares of values from to to of the sum, as planned. It is called for parts
// that begin at multiples of 32, in order.
func (n *norms) takeSquares(sum []float32, from, to int, over f32.Precondition, pool *Pool) {
	if !n.wants() {
		return
	}
	if from == 0 {
		n.squares = f32.AddSquares{}
	}
	if n.plan == planTotal {
		n.squares.After.Add(sum[from:to], over.Part(from, to))
		return
	}
	kept := n.kept.data.Float32s(len(sum))
	scratch := pool.Get(4 * partLen)
	defer scratch.Release()
	for ; from < to; from += partLen {
		end := min(from+partLen, to)
		// The addition goes to scratch memory, so that the kept sum is not written back.
		both := scratch.Float32s(end - from)
		copy(both, kept[from:end])
		f32.AddToMeasured(both, sum[from:end], over.Part(from, end), &n.squares, true, true)
	}
}

// finish sets the norms of the round, once all squares are taken. That a round is spoiled may show
// only when its last contribution is added, after choose.
func (n *norms) finish() {
	if n == nil || n.phase == measureSpoiled {
		return
	}
	switch n.plan {
	case planTotal:
		n.total = n.squares.After.Total()
		fallthrough
	case planDone:
		n.newest = wire.Norms{Count: n.count, Examples: n.examples, MeanSqr: n.sqr / n.examples, SqrMean: n.total / (n.examples * n.examples)}
	case planDifference:
		// The two sums are as two micro-gradients of one round.
		kept := &n.kept
		all := kept.weight + n.examples
		n.newest = wire.Norms{Count: 2, Biased: true, Examples: all, SqrMean: n.squares.After.Total() / (all * all),
			MeanSqr: (n.squares.Before.Total()/kept.weight + n.squares.Added.Total()/n.examples) / all}
		kept.drop()
	}
}

// reset forgets the open round. What was kept of earlier rounds stays.
func (n *norms) reset() {
	if n != nil {
		n.last.Release()
		n.measurement = measurement{}
	}
}

// addToMeasured is addTo, and takes squares as f32.AddToMeasured does. The codec is one of up to 16
// bits a value.
func (p *payload) addToMeasured(dst []float32, pool *Pool, over f32.Precondition, sums *f32.AddSquares, before, after bool) {
	if p.codec == wire.CodecFloat32 {
		f32.AddToMeasured(dst, p.data.Float32s(len(dst)), over, sums, before, after)
		return
	}
	scratch := pool.Get(4 * partLen)
	defer scratch.Release()
	part := scratch.Float32s(partLen)
	for from := 0; from < len(dst); from += len(part) {
		to := min(from+len(part), len(dst))
		x := part[:to-from]
		p.decodePart(x, from)
		f32.AddToMeasured(dst[from:to], x, over.Part(from, to), sums, before, after)
	}
}

// spoil leaves the open round without norms: contributions that were preconditioned by an old state
// are in it.
func (n *norms) spoil() {
	if n.on() {
		n.phase = measureSpoiled
	}
}

// dropKept drops the kept sum.
func (n *norms) dropKept() {
	if n != nil {
		n.kept.drop()
	}
}

// forget forgets what was measured of closed rounds.
func (n *norms) forget() {
	if n != nil {
		n.newest = wire.Norms{}
		n.kept.drop()
	}
}

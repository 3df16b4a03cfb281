package shard

import (
	"fmt"
	"slices"

	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/optim"
)

// A measurement is what is known of the norms of an open round's gradients: see wire.Norms. A round
// is measured if all its contributions ask for it. Those of weight 0 and those that the guard has
// refused are left out.
type measurement struct {
	asked bool // all contributions so far, at least one, ask for it
	// spoiled: the round cannot be measured, because a contribution did not ask, or because its
	// part cannot be told from the others'.
	spoiled    bool
	count      uint32  // micro-gradients
	examples   float64 // sum of the weights
	sqr        float64 // Σ ‖s‖²/m, in the order of the sum
	own        bool    // the newest contribution's squares are taken; its worker has not done it
	ownWeight  float64
	total      float64 // ‖Σ s‖², if totalKnown
	totalKnown bool
	plan       uint8
	keep       bool // the sum is to be kept for the next round, see keptSum
}

// A keptSum is the sum of a round with one micro-gradient. The next round's, if it has one too, is
// measured against it: the two are as two micro-gradients of one round (biased by what the update
// between them has changed).
type keptSum struct {
	data   *Buffer // nil: none
	round  uint64
	weight float64
}

// A measuring is what a shard needs to measure norms. It is made in the first measured round.
type measuring struct {
	measurement            // of the open round
	newest      wire.Norms // of the newest round
	kept        keptSum
	squares     f32.AddSquares
}

func (s *Shard) measurements() *measuring {
	if s.measuring == nil {
		s.measuring = &measuring{}
	}
	return s.measuring
}

// norms returns the norms of the newest round.
func (s *Shard) norms() wire.Norms {
	if s.measuring == nil {
		return wire.Norms{}
	}
	return s.measuring.newest
}

// setNorms sets the norms of the newest round.
func (s *Shard) setNorms(n wire.Norms) {
	if s.measuring != nil || n != (wire.Norms{}) {
		s.measurements().newest = n
	}
}

func (s *Shard) keptSum() keptSum {
	if s.measuring == nil {
		return keptSum{}
	}
	return s.measuring.kept
}

// keepsSum reports whether the sum that is being applied is kept.
func (s *Shard) keepsSum() bool { return s.measuring != nil && s.measuring.keep }

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

// checkStep checks the numbers of a contribution's step.
func (s *Shard) checkStep(c *Contribution) error {
	st := &c.Step
	if *st == (wire.Step{}) {
		return nil
	}
	r := &st.Rate
	switch {
	case !(r.Factor >= 0 && r.Factor <= wire.MaxFactor) || r.Factor != 0 && !r.Scaled:
		return s.refuse(wire.CodeMalformed, "push: got learning-rate factor %v, scaled: %v; want 0 to %d, and 0 unless scaled", r.Factor, r.Scaled, wire.MaxFactor)
	case !(r.Progress >= 0 && r.Progress <= wire.MaxProgress) || r.Progress != 0 && !r.ByProgress:
		return s.refuse(wire.CodeMalformed, "push: got progress %v, by progress: %v; want 0 to %d, and 0 unless by progress", r.Progress, r.ByProgress, uint64(wire.MaxProgress))
	case !(r.Gain >= 0 && r.Gain <= wire.MaxFactor):
		return s.refuse(wire.CodeMalformed, "push: got gain %v, want 0 to %d", r.Gain, wire.MaxFactor)
	}
	if err := s.checkMicro("push", st.Measure, st.Micro, st.MicroSqr); err != nil {
		return err
	}
	switch {
	case !st.Measure:
		return nil
	case s.cfg.Form != wire.FormDense:
		return s.refuse(wire.CodeUnsupported, "push: got a measured push; the norms of keys of rows are not measured")
	case s.cfg.Rule == wire.RuleAverage:
		return s.refuse(wire.CodeUnsupported, "push: got a measured push; the norms of averaged keys are not measured")
	case c.Codec > wire.CodecBFloat16:
		return s.refuse(wire.CodeUnsupported, "push: got a measured push in codec %d, which does not hold the gradient; measure with float32 (0), float16 (1) or bfloat16 (2)", c.Codec)
	}
	return nil
}

// checkMicro checks what a contributor says of its micro-gradients.
func (s *Shard) checkMicro(what string, measure bool, micro uint32, sqr float64) error {
	switch {
	case micro > wire.MaxMicro || micro != 0 && !measure:
		return s.refuse(wire.CodeMalformed, "%s: got %d micro-gradients, measured: %v; want at most %d, and 0 unless measured", what, micro, measure, wire.MaxMicro)
	case !(sqr >= 0) || sqr != 0 && micro <= 1:
		return s.refuse(wire.CodeMalformed, "%s: got %v as the squared norms of %d micro-gradients, want at least 0, and 0 unless there are several", what, sqr, micro)
	}
	return nil
}

// learningRate returns the rate on which the contributions agree.
func (r *round) learningRate() wire.RoundRate {
	if r.rate == nil {
		return wire.RoundRate{}
	}
	return *r.rate
}

func (r *round) setRate(x wire.RoundRate) {
	switch {
	case r.rate != nil:
		*r.rate = x
	case x != wire.RoundRate{}:
		r.rate = new(wire.RoundRate)
		*r.rate = x
	}
}

// checkRate returns an error if a contribution of another rate has come before.
func (s *Shard) checkRate(r *round, c *Contribution, rank uint32) error {
	have := r.learningRate()
	if r.present == 0 || have == c.Step.Rate {
		return nil
	}
	first := slices.IndexFunc(r.slots, func(x slot) bool { return x.seq != 0 })
	return s.refuse(wire.CodeConflict, "push %d of rank %d: round %d: got %s, but rank %d gave %s; all workers must give the same",
		c.Seq, rank, c.Round, rateText(&c.Step.Rate), r.slots[first].rank, rateText(&have))
}

func rateText(r *wire.RoundRate) string {
	factor, at := 1.0, "the round"
	if r.Scaled {
		factor = r.Factor
	}
	if r.ByProgress {
		at = fmt.Sprintf("progress %v", r.Progress)
	}
	text := fmt.Sprintf("learning-rate factor %v with the schedule read at %s", factor, at)
	if r.Gain != 0 {
		text += fmt.Sprintf(" and gain %v", r.Gain)
	}
	return text
}

// measures reports whether the norms of a contribution that is about to be added are measured.
func (s *Shard) measures(x *slot) bool {
	begun := s.sum.data != nil || s.sum.host.begun() // so that what comes later is not measured, either
	if s.measuring == nil && (!x.measure || begun) {
		return false
	}
	n := s.measurements()
	if !x.measure || n.spoiled || !n.asked && begun {
		n.spoiled = true
		return false
	}
	return true
}

// precondition returns by what gradients are divided before they are squared, for rules of Adam's
// family.
func (s *Shard) precondition() (p f32.Precondition) {
	if s.opt != nil && s.rounds >= warmRounds {
		p.Variance, p.Root, p.Epsilon = s.opt.SecondMoment(s.rounds, s.state)
	}
	return p
}

// measure adds a contribution to the sum, or to its host's part of it, and takes its squares on the
// way. last: it is the round's last one, added to the sum.
func (s *Shard) measure(x *slot, p *payload, into *partialSum, last bool) {
	own := s.countNorms(x)
	if into.data == nil {
		into.take(s.cfg.Pool, s.n, p)
		into.deferred, into.deferredWeight = own, float64(x.weight)
		return
	}
	s.addMeasured(into, p, own, float64(x.weight), last)
}

// countNorms counts a measured contribution's micro-gradients, and reports whether its squares are
// to be taken here.
func (s *Shard) countNorms(x *slot) (own bool) {
	n := s.measuring
	n.asked = true
	preconditioned := s.precondition().Variance != nil
	weight, micro := float64(x.weight), max(x.micro, 1)
	if preconditioned {
		micro = 1 // the worker's norms are of gradients as they are
	}
	own = micro == 1 || weight == 0
	if !own && x.verdict == clipped || x.summed && preconditioned { // the worker's norms are those before
		n.spoiled = true
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

// addMeasured adds a payload to the sum, or to a host's part of it, and takes squares on the way.
func (s *Shard) addMeasured(into *partialSum, p *payload, own bool, weight float64, last bool) {
	n := s.measuring
	over := s.precondition()
	n.own, n.ownWeight, n.totalKnown = own, weight, last
	if last && n.count > 1 && over.Variance != nil && p.codec == wire.CodecFloat32 && s.opt.HasMeasuredUpdate() && s.closes() {
		s.sum.last = p.data // update adds it
		return
	}
	squares := &n.squares
	*squares = f32.AddSquares{}
	p.addToMeasured(into.data.Float32s(s.n), s.cfg.Pool, over, squares, into.deferred, last)
	p.data.Release()
	n.take(into, optim.Squares{Before: squares.Before.Total(), Added: squares.Added.Total(), After: squares.After.Total()})
}

// take takes the squares of an addition to a sum, as far as they are wanted.
func (n *measurement) take(into *partialSum, squares optim.Squares) {
	if into.deferred {
		into.deferred = false
		n.add(squares.Before, into.deferredWeight)
	}
	if n.own {
		n.add(squares.Added, n.ownWeight)
	}
	if n.totalKnown {
		n.total = squares.After
	}
}

// add adds the squared norm of a contribution.
func (n *measurement) add(sqr, weight float64) {
	switch {
	case weight > 0:
		n.sqr += sqr / weight
	case sqr != 0:
		n.spoiled = true // it is in the sum, and counts nothing
	}
}

// planNorms decides, before the sum is applied as round number step, whether the round is measured,
// and whether its sum is kept.
func (s *Shard) planNorms(step uint64) {
	n := s.measuring
	if n == nil {
		return
	}
	n.newest = wire.Norms{}
	kept := &n.kept
	switch {
	case !n.asked || n.spoiled || n.count == 0 || s.sum.data == nil || s.opt != nil && s.opt.HasSecondMoment() && step < warmRounds:
	case n.count > 1:
		n.plan = planTotal
		if n.totalKnown {
			n.plan = planDone
		}
	case kept.data != nil && kept.round+1 == step:
		n.plan = planDifference
		return
	default:
		n.keep = step%differencePeriod == 0
	}
	kept.drop()
}

// The plans of a measurement.
const (
	planNothing    uint8 = iota
	planDone             // all squares are taken
	planTotal            // those of the sum are to be taken
	planDifference       // the sum is to be measured against the kept one
)

// squaresPart values of the sum, the kept one, the value and an optimizer's slots fit the
// second-level cache. It is a multiple of 32.
const squaresPart = 4096

// update applies the optimizer to the sum, to which it adds the last contribution if that was left
// to it. Squares that are still to be taken are taken on the way, part by part, while the sum is in
// the cache.
func (s *Shard) update(pass *optim.Pass) error {
	value, sum := s.writable(), s.sum.data.Float32s(s.n)
	if last := s.sum.last; last != nil {
		over := s.precondition()
		squares, err := pass.UpdateMeasured(value, sum, last.Float32s(s.n), s.state, over.Root, over.Epsilon)
		s.measuring.take(&s.sum.partialSum, squares)
		return err
	}
	if n := s.measuring; n == nil || n.plan <= planDone || s.opt.Config().WholeKeys() {
		s.takeSquares(0, s.n)
		return pass.Update(value, sum, s.state)
	}
	part := &s.scratchMemory().state
	part.Slots = append(part.Slots[:0], s.slots()...)
	for from := 0; from < s.n; from += squaresPart {
		to := min(from+squaresPart, s.n)
		s.takeSquares(from, to)
		for i, slot := range s.slots() {
			part.Slots[i].Values = slot.Values[from:to]
		}
		if err := pass.Update(value[from:to], sum[from:to], part); err != nil {
			return err
		}
	}
	clear(part.Slots)
	return nil
}

// takeSquares takes the squares of values from to to of the sum, as planned. It is called for parts
// that begin at multiples of 32, in order.
func (s *Shard) takeSquares(from, to int) {
	n := s.measuring
	if n == nil || n.plan <= planDone {
		return
	}
	if from == 0 {
		n.squares = f32.AddSquares{}
	}
	sum, over := s.sum.data.Float32s(s.n), s.precondition()
	var kept []float32
	if n.plan == planDifference {
		kept = n.kept.data.Float32s(s.n)
	}
	if kept == nil {
		n.squares.After.Add(sum[from:to], over.Part(from, to))
		return
	}
	scratch := s.cfg.Pool.Get(4 * partLen)
	defer scratch.Release()
	for ; from < to; from += partLen {
		end := min(from+partLen, to)
		both := scratch.Float32s(end - from) // so that the kept sum is not written back to memory
		copy(both, kept[from:end])
		f32.AddToMeasured(both, sum[from:end], over.Part(from, end), &n.squares, true, true)
	}
}

// finishNorms sets the norms of the round, once all squares are taken. The open round is still the
// one that they are of.
func (s *Shard) finishNorms() {
	n := s.measuring
	if n == nil || n.spoiled { // which may show only when the last contribution is added
		return
	}
	switch n.plan {
	case planTotal:
		n.total = n.squares.After.Total()
		fallthrough
	case planDone:
		n.newest = wire.Norms{Count: n.count, Examples: n.examples, MeanSqr: n.sqr / n.examples, SqrMean: n.total / (n.examples * n.examples)}
	case planDifference: // the two sums are as two micro-gradients of one round
		kept := &n.kept
		all := kept.weight + n.examples
		n.newest = wire.Norms{Count: 2, Biased: true, Examples: all, SqrMean: n.squares.After.Total() / (all * all),
			MeanSqr: (n.squares.Before.Total()/kept.weight + n.squares.Added.Total()/n.examples) / all}
		kept.drop()
	}
}

// keepSum keeps the sum of the round that was just applied. A backup needs the sum, too, and a
// value may be it: then a copy is kept.
func (s *Shard) keepSum(step uint64) {
	k := &s.measuring.kept
	k.drop()
	k.round, k.weight = step, s.sum.weight
	if s.sum.data != nil && !s.backup.isInSync() {
		k.data, s.sum.data = s.sum.data, nil
		return
	}
	sum := s.current.Float32s()
	if s.sum.data != nil {
		sum = s.sum.data.Float32s(s.n)
	}
	k.data = s.cfg.Pool.Get(4 * s.n)
	copy(k.data.Float32s(s.n), sum)
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

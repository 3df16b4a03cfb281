package shard

import (
	"slices"

	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/observe/shown"
	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/optim"
)

// An updater is a shard's optimizer with its state. It changes values by sums and knows neither
// rounds nor readers.
//
// A state may come before its optimizer: a Load gives the slots first. Then the names of the slots
// decide whether the next optimizer takes them over.
type updater struct {
	// opt is nil if the shard has no optimizer: then the sum replaces the value.
	opt     *optim.Optimizer
	factors optim.Factors
	state   *optim.State
}

// slots returns the optimizer's state arrays; none without a state.
func (u *updater) slots() []optim.Slot {
	if u.state == nil {
		return nil
	}
	return u.state.Slots
}

// config returns the optimizer's JSON; empty: none.
func (u *updater) config(cfg *Config) (string, error) {
	if u.opt == nil {
		return "", nil
	}
	data, err := u.opt.Config().Encode()
	if err != nil {
		return "", cfg.refuse(wire.CodeInternal, "read state: %v", err)
	}
	return string(data), nil
}

// checkSlots returns an error unless slots are those of the optimizer. Without an optimizer any
// are right.
func (u *updater) checkSlots(cfg *Config, code wire.Code, verb string, slots []string) error {
	if u.opt != nil && !slices.Equal(slots, u.opt.SlotNames()) {
		return cfg.refuse(code, "%s: got slots %s, want %q, those of %s", verb, shown.Names(slots), u.opt.SlotNames(), u.opt.Config().Name)
	}
	return nil
}

// set makes opt the optimizer. A rule with the same slots keeps the state; for another the state
// begins anew, and set returns true.
func (u *updater) set(cfg *Config, opt *optim.Optimizer) (anew bool) {
	if opt.Check(u.state, cfg.values()) != nil {
		u.state, anew = opt.NewState(cfg.values()), true
	}
	u.opt, u.factors = opt, opt.Factors(cfg.Name)
	return anew
}

// follow returns the optimizer of a JSON that a primary sent, which is to be set; nil if that is
// the one in use. Of an empty JSON it drops the one in use, and keeps the state.
func (u *updater) follow(cfg *Config, config string) (*optim.Optimizer, error) {
	if cfg.Rule == wire.RuleAverage {
		return nil, nil
	}
	if config == "" {
		u.opt = nil
		return nil, nil
	}
	have, err := u.config(cfg)
	if err != nil || have == config {
		return nil, err
	}
	c, err := optim.Decode([]byte(config))
	if err != nil {
		return nil, cfg.refuse(wire.CodeMalformed, "follow: %v", err)
	}
	opt, err := optim.New(c)
	if err != nil {
		return nil, cfg.refuse(wire.CodeMalformed, "follow: %v", err)
	}
	return opt, nil
}

// idle reports whether a sum changes nothing, not even what the optimizer remembers: the round is
// to be a mean, and has contributions of weight 0 alone, so nothing was learned.
func (u *updater) idle(t *sum) bool {
	return u.opt != nil && t.cfg.Rule == wire.RuleOptimizer && !(t.weight > 0) && u.opt.Config().Reduction == optim.Mean
}

// precondition returns by what gradients of a round are divided before they are squared, for rules
// of Adam's family. In the first rounds the second moment says nothing yet.
func (u *updater) precondition(round uint64) (p f32.Precondition) {
	if u.opt != nil && round >= warmRounds {
		p.Variance, p.Root, p.Epsilon = u.opt.SecondMoment(round, u.state)
	}
	return p
}

// cold reports whether the optimizer has a second moment that says nothing yet in a round.
func (u *updater) cold(round uint64) bool {
	return u.opt != nil && u.opt.HasSecondMoment() && round < warmRounds
}

// pass returns the update of a round with a sum of these weights, at the rate on which its
// contributions agree. clip is the factor of optim.Config.ClipGlobalNorm, if that is set.
func (u *updater) pass(round uint64, weight float64, rate wire.RoundRate, clip float64) optim.Pass {
	cfg := u.opt.Config()
	scale := cfg.ScaleFor(weight)
	pass := u.opt.At(round, scale, u.factors)
	if rate.ByProgress {
		pass = u.opt.AtProgress(round, rate.Progress, scale, u.factors)
	}
	if rate.Scaled {
		pass = pass.WithFactor(rate.Factor)
	}
	if rate.Gain > 0 {
		pass = pass.WithGain(rate.Gain)
	}
	if u.opt.ClipsGlobalNorm() {
		pass = pass.WithClip(clip)
	}
	return pass
}

// update changes a value by the sum of a round, to which it adds the last contribution if that was
// left to it. Squares that are still to be taken are taken on the way, part by part, while the sum
// is in the cache.
func (u *updater) update(pass *optim.Pass, round uint64, value []float32, t *sum) error {
	total, n := t.values(), t.norms
	if n != nil && n.last != nil {
		over := u.precondition(round)
		squares, err := pass.UpdateMeasured(value, total, n.last.Float32s(len(total)), u.state, over.Root, over.Epsilon)
		n.take(&n.first, squares)
		return err
	}
	if !n.wants() {
		return pass.Update(value, total, u.state)
	}
	over := u.precondition(round)
	if u.opt.Config().WholeKeys() {
		n.takeSquares(total, 0, len(total), over, t.cfg.Pool)
		return pass.Update(value, total, u.state)
	}
	part := &n.part
	part.Slots = append(part.Slots[:0], u.slots()...)
	defer clear(part.Slots)
	for from := 0; from < len(total); from += squaresPart {
		to := min(from+squaresPart, len(total))
		n.takeSquares(total, from, to, over, t.cfg.Pool)
		u.cut(part, from, to)
		if err := pass.Update(value[from:to], total[from:to], part); err != nil {
			return err
		}
	}
	return nil
}

// updateLent changes a value by the sum so far and the claimed contributions, and writes it to all
// outs while it is in the cache.
func (u *updater) updateLent(pass *optim.Pass, value []float32, t *sum, outs [][]float32) error {
	l := t.lending
	parts, part := l.partsWith(t.data, len(value)), &l.part
	part.Slots = append(part.Slots[:0], u.slots()...)
	defer clear(part.Slots)
	scratch := t.cfg.Pool.Get(4 * lentPart)
	defer scratch.Release()
	for from := 0; from < len(value); from += lentPart {
		to := min(from+lentPart, len(value))
		total := l.added(parts, scratch.Float32s(to-from), from, to)
		u.cut(part, from, to)
		if err := pass.Update(value[from:to], total, part); err != nil {
			return err
		}
		for _, out := range outs {
			copy(out[from:to], value[from:to])
		}
	}
	return nil
}

// cut makes part the state of values from to to. It has as many slots as the whole. Parts may be
// updated one after the other because no rule that is updated in parts looks at its neighbours: see
// optim.Config.WholeKeys.
func (u *updater) cut(part *optim.State, from, to int) {
	for i, slot := range u.slots() {
		part.Slots[i].Values = slot.Values[from:to]
	}
}

// expect makes slots without values the state of an open vocabulary, whose rows have their own, and
// returns the first values of a new row's state: the optimizer's, or zeros until there is one.
func (u *updater) expect(slots []string) (first []optim.Slot) {
	u.state = &optim.State{}
	for _, name := range slots {
		u.state.Slots = append(u.state.Slots, optim.Slot{Name: name})
		first = append(first, optim.Slot{Name: name, Values: []float32{0}})
	}
	if u.opt != nil {
		first = u.opt.NewState(1).Slots
	}
	return first
}

// load makes slots of n values each the state: copies of values, one array after the other, or
// zeros if values is nil.
func (u *updater) load(slots []string, n int, values []float32) {
	u.state = &optim.State{}
	for i, name := range slots {
		slot := optim.Slot{Name: name}
		if values == nil {
			slot.Values = make([]float32, n)
		} else {
			slot.Values = slices.Clone(values[i*n : (i+1)*n])
		}
		u.state.Slots = append(u.state.Slots, slot)
	}
}

// restore makes room for the slots of an optimizer that will be set later, of n values each, or in
// the rows of a vocabulary.
func (u *updater) restore(slots []string, n int, o *vocabulary) {
	if o != nil {
		o.slots = u.expect(slots)
		return
	}
	u.load(slots, n, nil)
}

// inParts reports whether a value can be made part by part, with no sum of the whole round.
func (u *updater) inParts(cfg *Config) bool {
	return cfg.Rule == wire.RuleAverage || u.opt == nil || !u.opt.Config().WholeKeys()
}

// slotNames returns the names of slots; nil for none, as it is sent.
func slotNames(slots []optim.Slot) []string {
	var names []string
	for _, slot := range slots {
		names = append(names, slot.Name)
	}
	return names
}

// places reports, before the sum is applied, whether the value is to be written to the workers
// after that: it is not if it is written part by part. With a backup it is sent instead: should
// this server be lost before the backup has the round, the workers push again, perhaps out of the
// memory that the value would be written to.
func (u *updater) places(t *sum, backedUp bool) bool {
	inParts := t.toAdd() != nil && !u.idle(t)
	return !inParts && !backedUp
}

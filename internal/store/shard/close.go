package shard

import (
	"fmt"

	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// The life of a round: contributions are put into its slots, added in order as they come, and when
// all are there the sum is applied and the next round opens. Nothing waits in between. What blocks
// a round (a backup that lacks the one before) leaves it full, and it is closed by the event that
// ends the blocking.

// closes reports whether the open round closes now. A round that is blocked closes when its backup
// has what it needs, by another call of closeRounds; one that is held, when its Decision comes.
func (s *Shard) closes() bool { return s.whole() && !s.undecided() }

// whole reports whether nothing but a Decision may be missing for the open round to close.
func (s *Shard) whole() bool {
	return s.err == nil && !s.replica.blocks() && len(s.members.ranked) > 0 && s.rounds.open.full()
}

// closeRounds adds up what is ready, closes the open round if every member has contributed, and
// then the next ones. Everything that could let a round close ends with it: a contribution, other
// members, an acknowledgement of the backup, a loan that was taken back.
func (s *Shard) closeRounds() {
	begin := s.stopwatch.begins(&s.cfg, &s.rounds.open, s.mode.anyOrder())
	s.aggregateReady()
	for s.closes() {
		slots := s.rounds.open.slots
		weight, places := s.sum.weight, s.updater.places(&s.sum, s.replica.in(replicaInSync))
		if err := s.apply(s.rounds.number); err != nil {
			s.fail(err)
			return
		}
		if places {
			s.sum.place(slots, s.readers.current, s.rounds.number+1)
		}
		s.guard.learn(&s.cfg, slots, &s.members)
		for i := range slots {
			if m := s.members.of(slots[i].node); m != nil {
				m.lastSeq = slots[i].seq
			}
			if s.replica != nil {
				s.replica.count(countedOf(&slots[i]))
			}
		}
		s.rounds.number++
		s.rounds.clip().closed()
		s.publish(weight, examplesOf(slots))
		s.stopwatch.closed(&s.cfg, &s.rounds, s.rounds.number-1, begin)
		s.rounds.turn(s.members.ordered())
		s.replica.announce()
		s.wake()
		begin = s.stopwatch.begins(&s.cfg, &s.rounds.open, s.mode.anyOrder())
		s.aggregateReady()
	}
	if begin != 0 {
		s.rounds.open.arrivals.apply += s.cfg.clock() - begin
	}
	s.stopwatch.tellHeld(&s.cfg)
	if s.held() {
		s.wake()
	}
}

// aggregateReady adds the contributions that are next in order, or in wire.ModeAnyOrder all that
// are there, to the sum and releases their memory.
func (s *Shard) aggregateReady() {
	r := &s.rounds.open
	a := addition{anyOrder: s.mode.anyOrder(), rows: s.table.count(&s.cfg)}
	if a.anyOrder {
		r.line()
	}
	for r.aggregated < len(r.slots) && r.slots[r.aggregated].seq != 0 {
		x := &r.slots[r.aggregated]
		if x.payload.lent {
			if !s.aggregateLent(&a) {
				return
			}
			continue
		}
		s.guard.judge(&s.cfg, x, s.rounds.number)
		if host := s.sum.host; host.begun() && host.group != x.group {
			a.last = false
			s.measure(&a, false)
			s.sum.addHost(&a)
		}
		a.last = r.aggregated+1 == len(r.slots)
		a.closes = a.last && s.closes()
		s.measure(&a, x.measure)
		s.stopwatch.let(x)
		s.sum.add(x, &a)
		r.aggregated++
	}
	if s.sum.host.begun() && r.aggregated == len(r.slots) {
		a.last = true
		s.measure(&a, false)
		s.sum.addHost(&a)
	}
}

// measure says how the next addition is measured, if the round is or the contribution asks for it.
func (s *Shard) measure(a *addition, asks bool) {
	if !asks && !s.sum.norms.on() {
		return
	}
	a.over = s.updater.precondition(s.rounds.number)
	a.fuse = a.last && a.over.Variance != nil && s.updater.opt.HasMeasuredUpdate() && s.closes()
}

// aggregateLent adds the lent contributions that are next in order, of which there is at least one,
// or leaves that to the closing of the round. It returns false if they stay in their slots.
func (s *Shard) aggregateLent(a *addition) bool {
	r, closing, least := &s.rounds.open, s.whole(), 1
	if !closing {
		least = addTogether
	}
	claimed, gone := r.claimLent(s.mode.anyOrder(), least)
	switch {
	case gone != nil:
		r.vacate(gone, &s.members, &s.counts)
		return true
	case claimed == nil:
		return false
	}
	// A backup needs the sum of the whole round, as do its squares.
	inParts := s.closes() && r.aggregated == len(r.slots) && s.updater.inParts(&s.cfg) && !s.replica.in(replicaInSync)
	a.last = false
	s.measure(a, false)
	s.sum.addLent(claimed, a, inParts)
	return true
}

// apply applies the sum to the value, as round number round, and empties the sum. What the round
// leaves behind (norms, the kept sum, the record for the backup) is made here, while the sum is
// there.
func (s *Shard) apply(round uint64) error {
	t := &s.sum
	if t.norms != nil {
		t.norms.choose(round, t.data != nil && !s.updater.cold(round))
	}
	err := s.change(round)
	t.norms.finish()
	backup := s.replica.in(replicaInSync)
	if err == nil && t.norms.keeps() {
		t.keep(round, backup, s.readers.current.Float32s())
	}
	if err == nil && backup {
		r := s.replica.record(Record{Round: round, Generation: s.members.generation, Weight: t.weight, Form: wire.RecordNone,
			Rate: s.rounds.open.learningRate(), Norms: t.norms.ofNewest(), Keep: t.norms.keeps(), Clip: s.rounds.clip().recorded()}, &s.updater, &s.cfg)
		r.take(t, s.table, &s.readers, s.cfg.Rule == wire.RuleOptimizer && s.updater.opt != nil, s.mode.async())
	}
	t.reset()
	if err != nil {
		return s.cfg.refuse(wire.CodeInternal, "round %d: %v", round, err)
	}
	return nil
}

// change changes the value by the sum. It changes in place if no reader holds it; a round that
// leaves it as it is still gets a Version of its own, so that readers keep theirs with its round
// number.
func (s *Shard) change(round uint64) error {
	t := &s.sum
	lent := t.toAdd() != nil
	switch {
	case s.updater.idle(t) || s.rounds.clip().skips():
		if lent {
			t.addClaimed(&t.partialSum)
		}
		t.fate = sumKeepsValue
		s.readers.writable()
	case s.cfg.Rule == wire.RuleAverage && !(t.weight > 0):
		if lent {
			t.addClaimed(&t.partialSum)
		}
		s.readers.writable()
	case s.cfg.Form != wire.FormOpen && s.cfg.Length == 0:
	case s.cfg.HasRows():
		return s.table.apply(&s.updater, round, s.rounds.open.learningRate(), s.rounds.clip().factor(), s.readers.current.Float32s(), t)
	case lent:
		return s.changeLent(round)
	case t.data == nil && t.fate == sumRefused:
		t.fate = sumKeepsValue
		s.readers.writable()
	case t.data == nil:
		return fmt.Errorf("close round %d: no contributions", round)
	case s.cfg.Rule == wire.RuleAverage:
		t.divide()
		s.readers.replace(t.takeData())
	case s.updater.opt == nil:
		t.norms.takeSquares(t.values(), 0, s.cfg.values(), f32.Precondition{}, s.cfg.Pool)
		s.readers.replace(t.takeData())
	default:
		pass := s.updater.pass(round, t.weight, s.rounds.open.learningRate(), s.rounds.clip().factor())
		return s.updater.update(&pass, round, s.readers.writable(), t)
	}
	return nil
}

// changeLent makes the round's value from the sum so far and the claimed contributions, and writes
// it to the workers while it is in the cache: one pass over all memory, in which the sum never
// exists as a whole.
func (s *Shard) changeLent(round uint64) error {
	t, slots := &s.sum, s.rounds.closing(s.mode.async())
	defer t.lending.release()
	outs := t.claimOuts(slots)
	defer t.lending.releaseOuts(slots, round+1)
	if s.cfg.Rule == wire.RuleAverage || s.updater.opt == nil {
		s.readers.replace(t.addTo(outs))
		return nil
	}
	pass := s.updater.pass(round, t.weight, s.rounds.open.learningRate(), s.rounds.clip().factor())
	return s.updater.updateLent(&pass, s.readers.writable(), t, outs)
}

// publish says what the value now contains: all closed rounds, the newest with contributions of
// this weight and of so many examples.
func (s *Shard) publish(weight float64, examples uint64) {
	v := s.readers.current
	v.forgetHalf()
	v.round, v.generation, v.limit = s.rounds.number, s.members.generation, s.guard.valueLimit(&s.cfg)
	v.weight, v.examples = weight, examples
	v.setNorms(s.sum.norms.ofNewest())
}

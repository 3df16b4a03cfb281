package tune

import (
	"cmp"
	"math"
	"slices"
)

// collect removes unneeded checkpoints: those from before an exploit at once, others when
// the budget is exceeded. s.mu is held.
func (s *Study) collect() {
	over := s.cfg.CheckpointBytes > 0 && s.l.kept > s.cfg.CheckpointBytes
	if len(s.l.stale) == 0 && !over {
		return
	}
	needed := s.l.trials.needed()
	for _, c := range slices.Clone(s.l.stale) {
		if !needed[c.keptStep] {
			_ = s.drop(c.keptStep, c.bytes) // the study keeps an error
		}
	}
	if s.cfg.CheckpointBytes == 0 {
		return
	}
	for _, v := range s.l.victims(needed) {
		if s.l.kept <= s.cfg.CheckpointBytes {
			return
		}
		_ = s.drop(v.keptStep, v.bytes)
	}
	if s.l.kept > s.cfg.CheckpointBytes && !s.overBudget {
		s.overBudget = true
		s.logger.Warn("tune: checkpoints exceed their budget, and all of them are still needed", "study", s.cfg.Name,
			"bytes", s.l.kept, "budget", s.cfg.CheckpointBytes)
	}
}

// drop logs the removal of a checkpoint. s.mu is held.
func (s *Study) drop(k keptStep, bytes int64) error {
	e := Event{Kind: EventDrop, Trial: k.trial, Attempt: k.attempt, Step: k.step, Bytes: bytes}
	err := s.emit(&e, func() error { return s.l.drop(&e) })
	if err == nil {
		s.checkpoints.doom(k, e.Seq)
	}
	return err
}

// allKept are all checkpoints, those from before an exploit last.
func (l *ledger) allKept() []keptBytes { return append(l.trials.checkpoints(), l.stale...) }

// victims are the checkpoints that may be removed, in this order: older ones of trials that have a
// newer one, then the newest ones of finished trials; within each group the worst trials first. The
// newest of the best trial, or of those on the front, is not among them.
func (l *ledger) victims(needed map[keptStep]bool) []keptBytes {
	type victim struct {
		keptBytes
		newest bool
		score  float64
	}
	var all []victim
	best := map[int]bool{l.best: true}
	if l.cfg.several() {
		for _, t := range Front(l) {
			best[t.Number] = true
		}
	}
	for _, t := range l.trials {
		for i, c := range t.Checkpoints {
			newest := i == len(t.Checkpoints)-1
			if needed[c.of(t.Number)] || newest && (!t.State.Final() || best[t.Number]) {
				continue
			}
			score := math.Inf(-1)
			if r := l.Result(t); !math.IsNaN(r) {
				score = l.Score(r)
			}
			all = append(all, victim{keptBytes{c.of(t.Number), c.Bytes}, newest, score})
		}
	}
	slices.SortStableFunc(all, func(a, b victim) int {
		return cmp.Or(b2i(a.newest)-b2i(b.newest), cmp.Compare(a.score, b.score))
	})
	parts := make([]keptBytes, len(all))
	for i, v := range all {
		parts[i] = v.keptBytes
	}
	return parts
}

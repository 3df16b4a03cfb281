package tune

import (
	"cmp"
	"math"
	"slices"

	"github.com/paragon-train/paragon/tune/internal/checkpoints"
)

// A storage is the room that the checkpoints of a study take.
type storage struct {
	// bytes is the size of all checkpoints.
	bytes int64
	// stale are those from before an exploit: no trial has them any more, and they are to be
	// removed once no attempt goes on from them.
	stale []checkpoints.Saved
}

// outdate takes the checkpoints of a trial, which it no longer has.
func (s *storage) outdate(t *Trial) {
	for _, c := range t.Checkpoints {
		s.stale = append(s.stale, c.saved(t.Number))
	}
}

// remove takes note that a checkpoint is gone.
func (s *storage) remove(name checkpoints.Name, bytes int64) {
	s.stale = slices.DeleteFunc(s.stale, func(c checkpoints.Saved) bool { return c.Name == name })
	s.bytes -= bytes
}

// allKept are all checkpoints, those from before an exploit last.
func (l *ledger) allKept() []checkpoints.Saved {
	return append(l.view.trials.checkpoints(), l.storage.stale...)
}

// sizeOf is the size of a checkpoint in bytes, or 0.
func (l *ledger) sizeOf(name checkpoints.Name) (bytes int64) {
	for _, saved := range l.allKept() {
		if saved.Name == name {
			bytes = saved.Bytes
		}
	}
	return bytes
}

// victims are the checkpoints that may be removed, in this order: older ones of trials that have a
// newer one, then the newest ones of finished trials; within each group the worst trials first. The
// newest of the best trial, or of those on the front, is not among them.
func (v *standings) victims(needed map[checkpoints.Name]bool) []checkpoints.Saved {
	type victim struct {
		saved  checkpoints.Saved
		newest bool
		score  float64
	}
	var all []victim
	best := map[int]bool{v.best: true}
	if v.cfg.several() {
		for _, t := range Front(v) {
			best[t.Number] = true
		}
	}
	for _, t := range v.trials {
		for i, c := range t.Checkpoints {
			newest := i == len(t.Checkpoints)-1
			if needed[c.name(t.Number)] || newest && (!t.State.Final() || best[t.Number]) {
				continue
			}
			score := math.Inf(-1)
			if r := v.Result(t); !math.IsNaN(r) {
				score = v.Score(r)
			}
			all = append(all, victim{c.saved(t.Number), newest, score})
		}
	}
	slices.SortStableFunc(all, func(a, b victim) int {
		return cmp.Or(b2i(a.newest)-b2i(b.newest), cmp.Compare(a.score, b.score))
	})
	parts := make([]checkpoints.Saved, len(all))
	for i, x := range all {
		parts[i] = x.saved
	}
	return parts
}

package tune

import (
	"cmp"
	"math"
	"slices"

	"github.com/paragon-train/paragon/tune/internal/checkpoints"
)

// allKept are all checkpoints, those from before an exploit last.
func (l *ledger) allKept() []checkpoints.Saved { return append(l.trials.checkpoints(), l.stale...) }

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
func (l *ledger) victims(needed map[checkpoints.Name]bool) []checkpoints.Saved {
	type victim struct {
		saved  checkpoints.Saved
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
			if needed[c.name(t.Number)] || newest && (!t.State.Final() || best[t.Number]) {
				continue
			}
			score := math.Inf(-1)
			if r := l.Result(t); !math.IsNaN(r) {
				score = l.Score(r)
			}
			all = append(all, victim{c.saved(t.Number), newest, score})
		}
	}
	slices.SortStableFunc(all, func(a, b victim) int {
		return cmp.Or(b2i(a.newest)-b2i(b.newest), cmp.Compare(a.score, b.score))
	})
	parts := make([]checkpoints.Saved, len(all))
	for i, v := range all {
		parts[i] = v.saved
	}
	return parts
}

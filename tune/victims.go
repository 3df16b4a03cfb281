package tune

import (
	"cmp"
	"math"
	"slices"

	"github.com/paragon-train/paragon/tune/internal/checkpoints"
)

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

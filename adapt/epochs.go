package adapt

import "iter"

// RemainingEpochsUntil returns the epochs that have not ended, each once, up to but without epochs:
// for a training loop of one's own, whose body takes steps and adds their gains until Done says
// that the epoch has ended. So a run of so many epochs has exactly so many, also one that was
// killed and goes on with the Steps of its last checkpoint.
//
//	for epoch := range progress.RemainingEpochsUntil(10) {
//		for !progress.Done(epoch) {
//			// a step
//			progress.Add(noise.Gain(scale))
//		}
//		// evaluate
//	}
func (p *Progress) RemainingEpochsUntil(epochs int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for e := p.Epoch(); e < epochs; e++ {
			if !yield(e) {
				return
			}
		}
	}
}

package adapt

import (
	"fmt"
	"math"
)

// Progress says how far a job is, in scale-invariant steps: each step adds its gain, so it counts
// as the steps at the initial batch size that it is worth. Epoch e, from 0, ends when Steps reaches
// |D|·(e+1)/M0.
type Progress struct {
	// Steps are the scale-invariant steps done.
	Steps float64
	// Examples is |D|, the examples of an epoch.
	Examples int
	// InitialBatch is M0, the global batch for which the learning rate was chosen.
	InitialBatch int
	// WarmupEpochs are epochs of warm-up at the initial batch size, of rule legw alone.
	WarmupEpochs float64
}

// Validate is an error where a number is missing or not possible.
func (p Progress) Validate() error {
	switch {
	case !(p.Steps >= 0) || !finite(p.Steps):
		return fmt.Errorf("Progress.Steps is %g, want at least 0", p.Steps)
	case p.Examples < 1:
		return fmt.Errorf("Progress.Examples is %d, want at least 1", p.Examples)
	case p.InitialBatch < 1:
		return fmt.Errorf("Progress.InitialBatch is %d, want at least 1", p.InitialBatch)
	}
	return nil
}

// Add counts one step with this gain. A gain that is not a positive number counts nothing.
func (p *Progress) Add(gain float64) {
	if gain > 0 && finite(gain) {
		p.Steps += gain
	}
}

// epochSteps is the number of steps of an epoch at the initial batch size.
func (p Progress) epochSteps() float64 { return float64(p.Examples) / float64(p.InitialBatch) }

// EpochEnd is the number of scale-invariant steps at which an epoch ends.
func (p Progress) EpochEnd(epoch int) float64 {
	return float64(p.Examples) * float64(epoch+1) / float64(p.InitialBatch)
}

// Done reports whether an epoch has ended. What rounding took from a sum of gains does not make an
// epoch one step longer.
func (p Progress) Done(epoch int) bool { return p.Steps >= p.EpochEnd(epoch)*(1-1e-12) }

// Epoch is the first epoch that has not ended; 0 where Validate has an error.
func (p Progress) Epoch() int {
	done := p.Epochs()
	if done >= math.MaxInt32 {
		return math.MaxInt32
	}
	e := max(int(done)-1, 0)
	for p.valid() && p.Done(e) {
		e++
	}
	return e
}

// Epochs is the number of epochs done, with the part of the one that goes on; 0 where Validate has
// an error. A learning-rate schedule by progress reads it.
func (p Progress) Epochs() float64 {
	if !p.valid() {
		return 0
	}
	return p.Steps / p.epochSteps()
}

func (p Progress) valid() bool { return p.Validate() == nil }

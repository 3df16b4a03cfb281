package adapt

import "math"

// A Measurement is one step's: Count micro-gradients, the mean of their squared norms, the squared
// norm of their mean.
//
// A micro-gradient is the mean gradient of one local batch of one worker; a step of K workers with
// s accumulated batches has Count = K·(s+1) of them. For an optimizer of Adam's family each element
// is divided by √v̂ + ε before the norms are taken. The fields are those of kvstore.Norms, summed
// over the keys of a parameter group, with Scale = Examples/M0.
type Measurement struct {
	Count int
	// MeanSqr is mean_i ‖gᵢ‖². Weighted by examples it is exact for micro-batches of different
	// sizes.
	MeanSqr float64
	// SqrMean is ‖mean_i gᵢ‖², the mean weighted by examples.
	SqrMean float64
	// Scale is the global batch over the initial batch.
	Scale float64

	// Biased says that the micro-gradients are of different steps (Difference), between which
	// the true gradient moved.
	Biased bool

	// Apart says that the steps measured before and after this one are so far from it that it
	// is a sample of its own.
	Apart bool

	// EffectiveCount is M·mean_i(1/mᵢ) where the micro-batches had different sizes mᵢ with the
	// sum M, and MeanSqr is their plain mean. Zero is Count: the sizes were equal, or MeanSqr
	// is weighted by examples.
	EffectiveCount float64
}

// Difference is the measurement of a step with one micro-gradient g (one worker, no accumulation),
// from it and the step before's h: sqr is ‖g‖², before ‖h‖², sqrMean ‖(g+h)/2‖², and scale the
// batch of g over the initial batch. It is biased by the drift of the true gradient between the
// steps: an Estimator discards what it learned from such measurements when it gets a real one.
// There is none for the first step.
func Difference(sqr, before, sqrMean, scale float64) Measurement {
	return Measurement{Count: 2, MeanSqr: (sqr + before) / 2, SqrMean: sqrMean, Scale: 2 * scale, Biased: true}
}

// Unscale is the measurement of gradients that were multiplied by lossScale, as float16 training
// does.
func (m Measurement) Unscale(lossScale float64) Measurement {
	m.MeanSqr /= lossScale * lossScale
	m.SqrMean /= lossScale * lossScale
	return m
}

// Noise is what one step says of the noise (arXiv 1812.06162, appendix A.1, with n micro-gradients
// of M/n examples):
//
//	Sqr = (n·‖ḡ‖² − mean‖gᵢ‖²) / (n − 1)
//	Var = (mean‖gᵢ‖² − ‖ḡ‖²) · S / (n − 1)
//
// from E‖gᵢ‖² = ‖G‖² + n·tr(Cov)/M and E‖ḡ‖² = ‖G‖² + tr(Cov)/M. The two are unbiased for a
// Measurement that is not Biased. ok is false where the step says nothing: fewer than two
// micro-gradients, or a number that is not finite.
func (m Measurement) Noise() (n Noise, ok bool) {
	count := m.EffectiveCount
	if count == 0 {
		count = float64(m.Count)
	}
	if m.Count < 2 || !(count >= float64(m.Count)*(1-1e-9)) || !finite(count) || !(m.Scale > 0) || !finite(m.Scale) || !(m.MeanSqr >= 0) || !(m.SqrMean >= 0) {
		return Noise{}, false
	}
	n.Sqr = (float64(count*m.SqrMean) - m.MeanSqr) / (count - 1)
	n.Var = (m.MeanSqr - m.SqrMean) * m.Scale / (count - 1)
	return n, finite(n.Sqr) && finite(n.Var)
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

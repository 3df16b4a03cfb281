package kvstore

import (
	"math"

	"github.com/paragon-train/paragon/internal/store/wire"
)

// PushOptions say what the contributions of one step have in common. Every worker gives the same
// Measure, Factor, Gain and Progress. With Weight alone it is a plain step.
type PushOptions struct {
	// Weight is what a contribution counts in a mean: what its loss was divided by, such as the
	// number of its examples, or of its labels or tokens, which may be far more. A round whose
	// weights are all 0 updates nothing where the optimizer gets a mean.
	Weight float32
	// Examples is the number of examples of which the gradient is, at most 2³²−1: see
	// Store.RoundExamples. 0: as many as Weight, if that is a whole number up to 2²⁴.
	Examples int
	// Counted: this worker has used the Examples, and the servers add them up: see
	// Store.Weighted.
	Counted bool
	// Measure makes the servers measure the norms of this round's gradients, if all workers ask
	// for it: Store.Norms. Gradients must be sums over what Weight counts. Averaged keys and
	// those whose names begin with "paragon/" are not measured. A measured push of rows, in an
	// asynchronous store, or compressed with 2bit, 1bit or topk is ErrUnsupported.
	Measure bool
	// Factor returns the number, 0 to 2²⁰, that multiplies a key's learning rate in this round
	// alone: the optimizer's rate and what it remembers stay as they are without it (see
	// optim.Pass.WithFactor). Nil: 1. It may be called from several goroutines.
	Factor func(key string) float64
	// Gain returns, above 0 and at most 2²⁰, how many times larger the mean square of a key's
	// gradient would be at the batch size for which the learning rate was chosen. Rules of
	// Adam's family keep their second moment at that size with it (see optim.Pass.WithGain).
	// Nil: 1. It may be called from several goroutines.
	Gain func(key string) float64
	// Progress is where the learning-rate schedule is read, in steps of the schedule, 0 to 2⁵³,
	// if ByProgress; else at the key's round. Rates of SetLearningRate and bias corrections go
	// by rounds in either case.
	Progress   float64
	ByProgress bool
	// Micro returns the norms of the micro-batches, or devices' batches, whose gradients this
	// worker has summed into its gradient of a key. Nil: one micro-batch. Read only with
	// Measure. It may be called from several goroutines. Adam's family needs norms of
	// preconditioned gradients, which the servers alone can take: there each worker's gradient
	// is one.
	Micro func(key string) Micro
}

// A Micro says of which micro-batches a gradient is the sum: Sqr is Σ_j ‖s_j‖²/m_j, s_j the sum of
// the gradients of micro-batch j and m_j its weight, j from 1 to Count. Count 0 or 1 needs no Sqr.
// A NaN is taken as infinite: such a step's norms are not finite.
type Micro struct {
	// Count is at most 65535.
	Count int
	Sqr   float64
}

// Norms is what the servers measured of a key's newest round that this worker has pulled. s_i is
// the sum of the gradients of micro-gradient i, m_i its weight, such as its number of examples, and
// g_i = s_i/m_i its mean. For Adam's family the elements are divided by √v̂ + ε first.
type Norms struct {
	// Rounds is how many have closed, that one included.
	Rounds uint64
	// Count is the number of micro-gradients: the workers', or their micro-batches.
	Count int
	// Examples is Σ m_i: the weight of the global batch, its number of examples where that is
	// the weight.
	Examples float64
	// MeanSqr is (Σ ‖s_i‖²/m_i) / Σ m_i: the mean of ‖g_i‖², weighted by m_i. It is not finite
	// if a gradient was not.
	MeanSqr float64
	// SqrMean is ‖Σ s_i‖² / (Σ m_i)²: the squared norm of the mean gradient.
	SqrMean float64
	// Biased: the round had one micro-gradient. MeanSqr and SqrMean are of it and of the one of
	// the round before, as if they were two of one round; Count is 2, and Examples are those of
	// both. One round in 32 is measured so.
	Biased bool
}

// examples is how many examples a contribution has.
func (st *PushOptions) examples(verb, key string) (uint64, error) {
	w := st.Weight
	whole := w >= 0 && w <= maxWeightExamples && w == float32(uint64(w))
	switch {
	case st.Examples < 0 || uint64(st.Examples) > maxExamples:
		return 0, keyError(verb, key, nil, "got %d examples, want 0 to 2³²−1", st.Examples)
	case st.Examples == 0 && whole:
		return uint64(w), nil
	case st.Examples == 0 && st.Counted:
		return 0, keyError(verb, key, nil, "got weight %v as a number of examples, want a whole number up to %d, or the number as Examples", w, maxWeightExamples)
	}
	return uint64(st.Examples), nil
}

// The most examples of a contribution; and the largest weight that stands for them: up to it every
// whole number is a float32.
const (
	maxExamples       = 1<<32 - 1
	maxWeightExamples = 1 << 24
)

// stepOf returns what a push of the key says of its step, on the key's first shard. c is the push's
// compression.
func (st *PushOptions) stepOf(verb string, k *key, c Compression) (wire.Step, error) {
	var w wire.Step
	if st.Factor != nil {
		f := st.Factor(k.name)
		if !(f >= 0 && f <= wire.MaxFactor) {
			return w, keyError(verb, k.name, nil, "learning-rate factor: got %v, want 0 to %d", f, wire.MaxFactor)
		}
		if f != 1 {
			w.Rate.Scaled, w.Rate.Factor = true, f
		}
	}
	if st.Gain != nil {
		g := st.Gain(k.name)
		if !(g > 0 && g <= wire.MaxFactor) {
			return w, keyError(verb, k.name, nil, "gain: got %v, want above 0 and at most %d", g, wire.MaxFactor)
		}
		if g != 1 {
			w.Rate.Gain = g
		}
	}
	if st.ByProgress {
		if !(st.Progress >= 0 && st.Progress <= wire.MaxProgress) {
			return w, keyError(verb, k.name, nil, "progress: got %v, want 0 to 2⁵³", st.Progress)
		}
		w.Rate.ByProgress, w.Rate.Progress = true, st.Progress
	}
	if !st.Measure || k.auxiliary || k.rule == wire.RuleAverage {
		return w, nil
	}
	switch {
	case k.env.async:
		return w, keyError(verb, k.name, ErrUnsupported, "the norms of gradients cannot be measured in a store of type %q, whose rounds have one contribution; use dist_sync", k.env.kind)
	case !k.dense():
		return w, keyError(verb, k.name, ErrUnsupported, "the norms of keys of rows are not measured; push them with PushOptions without Measure")
	case c.feedback():
		return w, keyError(verb, k.name, ErrUnsupported, "norms cannot be measured of gradients compressed with %s: what the servers get is not this step's gradient; "+
			"measure with fp16, bf16 or no compression", c.Type)
	}
	w.Measure = true
	if st.Micro == nil {
		return w, nil
	}
	m := st.Micro(k.name)
	if m.Count <= 1 {
		return w, nil
	}
	if m.Count > wire.MaxMicro || m.Sqr < 0 {
		return w, keyError(verb, k.name, nil, "got %d micro-batches with squared norms of %v, want at most %d and at least 0", m.Count, m.Sqr, wire.MaxMicro)
	}
	w.Micro, w.MicroSqr = uint32(m.Count), m.Sqr
	if math.IsNaN(m.Sqr) {
		w.MicroSqr = math.Inf(1)
	}
	return w, nil
}

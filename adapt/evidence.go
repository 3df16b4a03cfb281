package adapt

import (
	"fmt"
	"math"
)

// Numbers of an Estimator's bound.
const (
	// blockLength is how many measurements of successive steps are one block. Blocks, unlike
	// steps, are nearly independent of each other.
	blockLength = 4
	// leastBlocks and leastSamples are the blocks, and the independent samples that they are
	// worth, below which nothing is bounded.
	leastBlocks  = 8
	leastSamples = 2
	// mostCorrelation bounds the estimate of how much neighbouring blocks are alike.
	mostCorrelation = 0.8
	// caution divides the noise scale. The batch up to which larger ones pay is near it, but up
	// to a factor: it weighs signal and noise by the curvature (arXiv 1812.06162, section 2.2),
	// which norms do not show.
	caution = 2
	// unitShare is the weight of the newest block in the unit of the next one.
	unitShare = 1.0 / 8
)

// Evidence is how far the blocks of measurements behind a State's averages lie apart. Each block
// has a weight w, the sum of its measurements' weights, and the means x of their Sqr and y of their
// Var. These are in units of what Sqr + Var was in the blocks before: gradients shrink by orders of
// magnitude in the first steps of a training, and a mean of numbers as they are would be that of
// these few steps for a long time. All sums decay with the averages, those of w by θ, those of
// products of two weights by θ².
//
// Measurements that are Biased are in no block: nothing in them tells how large their bias is.
type Evidence struct {
	// Unit is what the numbers of the next block are divided by. 0: there was no block yet; the
	// first one only sets it.
	Unit float64
	// Blocks is how many blocks count, in all.
	Blocks int

	// In the order of the fields: Σw, Σw²; Σwx, Σwy; Σw²x, Σw²y; Σw²x², Σw²xy, Σw²y².
	Weight, Weight2        float64
	Sqr, Var               float64
	Sqr2, Var2             float64
	SqrSqr, SqrVar, VarVar float64

	// Of each block and the one before it, whose numbers have a prime: Σww′, Σww′(x+x′)/2,
	// Σww′(y+y′)/2, Σww′xx′, Σww′(xy′+x′y)/2, Σww′yy′.
	Lag, LagSqr, LagVar, LagSqrSqr, LagSqrVar, LagVarVar float64

	// Last has the newest block's x, y and w.
	Last Sums
	// Open are the sums of the block that is not closed yet, of so many measurements.
	Open  Sums
	Count int
}

// decay makes all blocks count less.
func (v *Evidence) decay(keep float64) {
	for _, x := range []*float64{&v.Weight, &v.Sqr, &v.Var, &v.Last.Weight, &v.Open.Sqr, &v.Open.Var, &v.Open.Weight} {
		*x *= keep
	}
	twice := keep * keep
	for _, x := range []*float64{&v.Weight2, &v.Sqr2, &v.Var2, &v.SqrSqr, &v.SqrVar, &v.VarVar, &v.Lag, &v.LagSqr, &v.LagVar, &v.LagSqrSqr, &v.LagSqrVar, &v.LagVarVar} {
		*x *= twice
	}
	if v.Weight < leastWeight && v.Blocks > 0 {
		*v = Evidence{}
	}
}

// add takes one measurement of this weight; apart: it is a block of its own.
func (v *Evidence) add(n Noise, weight float64, apart bool) {
	if apart {
		// What is open has a few measurements of other steps, and is no part of this block.
		v.Open, v.Count = Sums{}, 0
	}
	v.Open.Sqr += float64(weight * n.Sqr)
	v.Open.Var += float64(weight * n.Var)
	v.Open.Weight += weight
	if v.Count++; v.Count < blockLength && !apart {
		return
	}
	if w := v.Open.Weight; w > 0 {
		v.close(w, v.Open.Sqr/w, v.Open.Var/w)
	}
	v.Open, v.Count = Sums{}, 0
}

// close takes one block.
func (v *Evidence) close(w, x, y float64) {
	size, unit := x+y, v.Unit
	if !(size > 0) {
		// There is no gradient at all.
		return
	}
	if unit == 0 {
		v.Unit = size
		return
	}
	v.Unit = unit + float64((size-unit)*unitShare)
	x, y = x/unit, y/unit
	v.Blocks++
	v.Weight += w
	v.Sqr += float64(w * x)
	v.Var += float64(w * y)
	ww := w * w
	v.Weight2 += ww
	v.Sqr2 += float64(ww * x)
	v.Var2 += float64(ww * y)
	v.SqrSqr += float64(ww * x * x)
	v.SqrVar += float64(ww * x * y)
	v.VarVar += float64(ww * y * y)
	if last := v.Last; last.Weight > 0 {
		lag := w * last.Weight
		v.Lag += lag
		v.LagSqr += float64(lag * (x + last.Sqr) / 2)
		v.LagVar += float64(lag * (y + last.Var) / 2)
		v.LagSqrSqr += float64(lag * x * last.Sqr)
		v.LagSqrVar += float64(lag * (float64(x*last.Var) + float64(y*last.Sqr)) / 2)
		v.LagVarVar += float64(lag * y * last.Var)
	}
	v.Last = Sums{x, y, w}
}

// A spread is the variance of one block's a·x + b·y around its mean, of blocks of these weights;
// lag is the covariance of neighbours.
func (v *Evidence) spread(a, b float64) (own, lag float64) {
	mean := (float64(a*v.Sqr) + float64(b*v.Var)) / v.Weight
	around := func(weight, x, y, xx, xy, yy float64) float64 {
		squares := float64(a*a*xx) + float64(2*a*b*xy) + float64(b*b*yy)
		sum := float64(a*x) + float64(b*y)
		return (squares - float64(2*mean*sum) + float64(mean*mean*weight)) / weight
	}
	own = max(0, around(v.Weight2, v.Sqr2, v.Var2, v.SqrSqr, v.SqrVar, v.VarVar))
	if v.Lag > 0 {
		lag = around(v.Lag, v.LagSqr, v.LagVar, v.LagSqrSqr, v.LagSqrVar, v.LagVarVar)
	}
	return own, lag
}

// estimate is the part of the signal in what a gradient's squared norm is at the initial batch,
// Sqr/(Sqr + Var), its standard error, and how many independent blocks both rest on: their number
// where all weigh the same and none is like its neighbour; 0: too few.
//
// With Q and V the means of x and y, and T = Q + V, the part is q = Q/T. The error of q is that of
// the mean of x − q·(x + y), whose mean is 0, over T. A Q below 0 is chance, and taken as 0.
func (v *Evidence) estimate() (part, err, samples float64) {
	if v.Blocks < 2 || !(v.Weight2 > 0) {
		return 0, 0, 0
	}
	total := (v.Sqr + v.Var) / v.Weight
	part = max(0, v.Sqr/v.Weight/total)
	blocks := v.Weight * v.Weight / v.Weight2
	own, lag := v.spread(1-part, -part)
	// The mean is taken from the same blocks, so neighbours lie further from it than from the
	// true mean: their correlation looks smaller by 1/blocks.
	rho := 1 / blocks
	if own > 0 && lag > 0 {
		rho += lag / own
	}
	rho = min(rho, mostCorrelation)
	samples = blocks * (1 - rho) / (1 + rho)
	if !(samples >= leastSamples) || !finite(samples) || !finite(part) || !(total > 0) {
		return 0, 0, 0
	}
	around, _ := v.spread(1, 1)
	// The total may be as small as least.
	least := max(total-float64(student(samples-1)*math.Sqrt(around/(samples-1))), total/2)
	return part, math.Sqrt(own/(samples-1)) / least, samples
}

// student is the 95 % quantile of Student's distribution for at least one degree of freedom, by its
// expansion around the normal one: 5.57 for 6.31 with one, 2.89 for 2.92 with two.
func student(freedom float64) float64 {
	const z, first, second, third = 1.6448536, 1.5239, 1.420, 0.983
	return z + first/freedom + second/(freedom*freedom) + third/(freedom*freedom*freedom)
}

// bound is the largest part of the signal that the evidence leaves possible at a confidence of 95
// %; ok is false where it is too little to say anything.
func (v *Evidence) bound() (part float64, ok bool) {
	if v.Blocks < leastBlocks {
		return 1, false
	}
	part, err, samples := v.estimate()
	if samples == 0 {
		return 1, false
	}
	return min(part+float64(student(samples-1)*err), 1), true
}

func (v *Evidence) validate() error {
	for _, x := range []float64{v.Unit, v.Weight, v.Weight2, v.Sqr, v.Var, v.Sqr2, v.Var2, v.SqrSqr, v.SqrVar, v.VarVar, v.Lag, v.LagSqr, v.LagVar, v.LagSqrSqr, v.LagSqrVar,
		v.LagVarVar, v.Last.Sqr, v.Last.Var, v.Last.Weight, v.Open.Sqr, v.Open.Var, v.Open.Weight} {
		if !finite(x) {
			return fmt.Errorf("Evidence is %+v, want finite numbers", *v)
		}
	}
	switch {
	case v.Blocks < 0 || v.Count < 0 || v.Count >= blockLength:
		return fmt.Errorf("Evidence has %d blocks and %d measurements of the next one, want at least 0, and fewer than %d", v.Blocks, v.Count, blockLength)
	case !(v.Weight >= 0 && v.Weight <= 1) || !(v.Weight2 >= 0 && v.Weight2 <= 1) || v.Unit < 0 || v.Open.Weight < 0 || v.Last.Weight < 0 || v.Lag < 0 || v.SqrSqr < 0 || v.VarVar < 0:
		return fmt.Errorf("Evidence is %+v, want weights from 0 to 1 and squares from 0", *v)
	}
	return nil
}

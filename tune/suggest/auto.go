package suggest

import (
	"math/rand/v2"

	"github.com/paragon-train/paragon/tune"
)

// Auto chooses between GP and TPE before each proposal: GP while the trials are few, the parameters not many, and the results show no
// noise, and else TPE. It is what a study file gets that names no suggester.
//
// The choice depends on the finished trials alone: on their number, and on the noise that the Gaussian process finds in their results.
type Auto struct {
	gp  GP
	tpe TPE
}

// Bounds of what is GP's. Its cost grows with the cube of the trials; with many parameters, or results with noise, it is no
// better than TPE.
const (
	autoTrials = 200
	autoDims   = 20
	autoNoise  = 0.03 // part of the results' variance
)

// Suggest implements tune.Suggester.
func (a *Auto) Suggest(v tune.View, number int, rng *rand.Rand) (tune.Params, error) {
	if a.prefersGP(v) {
		return a.gp.Suggest(v, number, rng)
	}
	return a.tpe.Suggest(v, number, rng)
}

func (a *Auto) prefersGP(v tune.View) bool {
	m, recs := a.gp.reader.read(v)
	n := finished(recs)
	switch {
	case n > autoTrials || len(m.dims) > autoDims:
		return false
	case n < autoNoisy || len(m.dims) == 0:
		return true
	}
	return a.gp.fit(m, byTheirEnd(recs)).noiseShare() <= autoNoise
}

// autoNoisy is the number of finished trials below which nothing is known of the noise.
const autoNoisy = 30

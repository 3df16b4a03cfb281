package suggest

import (
	"math/rand/v2"
	"slices"

	"github.com/paragon-train/paragon/tune"
)

// Auto chooses between GP and TPE before each proposal: GP while the trials are few, the parameters
// not many, and the results show no noise, and else TPE. As long as the trials are few, that TPE
// ranks them without the noise: by the Gaussian process's posterior means, not by their results.
// With several objectives it is MOTPE. It is what a study file gets that names no suggester.
//
// The choice depends on the finished trials alone: on their number, and on the noise that the
// Gaussian process finds in their results.
type Auto struct {
	// Per is what expected improvement is divided by: see GP.Per. GP then proposes although the
	// results have noise. TPE does not weigh what trials cost, and proposes where the trials or
	// the parameters are too many for GP.
	Per string

	gp    GP
	tpe   TPE
	motpe MOTPE
}

// Bounds of what is GP's. Its cost grows with the cube of the trials; with many parameters, or
// results with noise, it is no better than TPE.
const (
	autoTrials = 200
	autoDims   = 20
	autoNoise  = 0.03 // part of the results' variance
	// autoNoisy is how many finished trials it takes to know the noise.
	autoNoisy = 15
)

// Suggest implements tune.Suggester.
func (a *Auto) Suggest(v tune.View, number int, rng *rand.Rand) (tune.Params, error) {
	if len(v.Objectives()) > 1 {
		return a.motpe.Suggest(v, number, rng)
	}
	a.gp.Per = a.Per
	m, recs := a.gp.reader.read(v)
	if a.gp.reader.stepped && len(m.dims) <= autoDims {
		if told := a.gp.foretell(m, recs); told != nil {
			return a.foretold(told, v, number, rng)
		}
	}
	n := finished(recs)
	switch {
	case n > autoTrials || len(m.dims) > autoDims:
		return a.tpe.Suggest(v, number, rng)
	case a.Per != "" || !a.noisy(m, recs):
		return a.gp.Suggest(v, number, rng)
	}
	return a.tpe.suggest(m, a.gp.withoutNoise(m, recs), v, number, rng)
}

// noisy says whether the results of the finished trials show noise.
func (a *Auto) noisy(m *model, recs []record) bool {
	if finished(recs) < autoNoisy || len(m.dims) == 0 {
		return false
	}
	return a.gp.fit(m, byTheirEnd(recs)).noiseShare() > autoNoise
}

// withoutNoise are the records with the posterior means at the finished trials as their scores, up
// to a scale.
func (g *GP) withoutNoise(m *model, recs []record) []record {
	out := slices.Clone(recs)
	done := byTheirEnd(out)
	x, scores := m.points(done)
	for i, mean := range newGP(g.fit(m, done), x, normalise(scores)).meansAtPoints(0) {
		done[i].score = -mean
	}
	return out
}

package suggest

import (
	"math/rand/v2"

	"github.com/paragon-train/paragon/tune"
)

// Auto chooses between GP and TPE before each proposal, by what the study has shown so far. It is what `launch tune` uses for a
// study that names no suggester.
type Auto struct {
	gp  GP
	tpe TPE
}

// Suggest implements tune.Suggester.
func (a *Auto) Suggest(v tune.View, number int, rng *rand.Rand) (tune.Params, error) {
	if a.preferGP(v) {
		return a.gp.Suggest(v, number, rng)
	}
	return a.tpe.Suggest(v, number, rng)
}

func (a *Auto) preferGP(v tune.View) bool {
	m, recs := a.gp.reader.read(v)
	return finished(recs) <= autoTrials && len(m.dims) <= autoInputs
}

// Beyond these TPE is as good or much cheaper.
const (
	autoTrials = 200
	autoInputs = 24
)

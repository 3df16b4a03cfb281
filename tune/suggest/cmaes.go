package suggest

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/paragon-train/paragon/tune"
)

// CMAES proposes by the covariance matrix adaptation evolution strategy (Hansen, The CMA Evolution
// Strategy: A Tutorial, arXiv 1604.00772), in the unit cube: log and normal parameters through
// their own scale, choices and steps as intervals.
//
// It is asynchronous: finished trials, in the order in which they finished, are grouped into
// populations, whichever distribution each was drawn from; a point far outside the current
// distribution is moved closer (Hansen 2011, Injecting External Solutions). An inactive parameter
// of a trial counts as the mean. After convergence it restarts with twice the population.
type CMAES struct {
	// Population is the number of trials in a generation. Zero is 4 + ⌊3·ln d⌋.
	Population int
	// Sigma is the first standard deviation as a part of each range. Zero is 0.3.
	Sigma float64
	// Startup is the number of quasi-random trials before it; the best of them is the first
	// mean. Zero is one population.
	Startup int

	reader   reader
	matrices []sobolMatrix
	cache    cmaCache
}

// Suggest implements tune.Suggester.
func (c *CMAES) Suggest(v tune.View, number int, rng *rand.Rand) (tune.Params, error) {
	m, recs := c.reader.read(v)
	fixed := v.Fixed(number)
	given := m.given(fixed)
	s := c.replay(m, recs)
	if s == nil {
		return m.params(m.startPoint(recs, given, &c.matrices, v.Seed(), number, rng), fixed)
	}
	return m.params(m.fresh(recs, given, rng, func() []float64 { return c.propose(m, s, given, rng) }), fixed)
}

// cmaCache keeps the state after some populations, and what they were, so that a search need not be
// folded from its start at each proposal.
type cmaCache struct {
	used  []cmaUsed
	state *cmaState
}

// A cmaUsed is a record that is in the state. If its score has changed, all is folded anew.
type cmaUsed struct {
	number int
	score  float64
}

// population is the size of the first one (tutorial, equation 48).
func (c *CMAES) population(d int) int {
	if c.Population >= 2 {
		return c.Population
	}
	return 4 + int(3*math.Log(float64(d)))
}

// replay runs the finished records through the populations.
func (c *CMAES) replay(m *model, recs []record) *cmaState {
	d := len(m.dims)
	done := make([]*record, 0, len(recs))
	for i := range recs {
		if recs[i].finished() {
			done = append(done, &recs[i])
		}
	}
	slices.SortFunc(done, byEnd)
	lambda, startup, sigma := c.population(d), c.Startup, c.Sigma
	if startup <= 0 {
		startup = lambda
	}
	if sigma <= 0 {
		sigma = 0.3
	}
	if len(done) < startup || d == 0 {
		return nil
	}
	same := len(c.cache.used) <= len(done) && c.cache.state != nil && c.cache.state.d == d
	for i := 0; same && i < len(c.cache.used); i++ {
		u := c.cache.used[i]
		same = u.number == done[i].number && math.Float64bits(u.score) == math.Float64bits(done[i].score)
	}
	if !same {
		first := done[:startup]
		best := slices.MinFunc(first, func(a, b *record) int { return a.compare(b) })
		c.cache = cmaCache{state: newCMAState(d, lambda, centre(m.toUnit(best.x)), sigma)}
		c.cache.add(first)
	}
	for s := c.cache.state; len(done)-len(c.cache.used) >= s.lambda; s = c.cache.state {
		batch := done[len(c.cache.used):][:s.lambda]
		c.cache.add(batch)
		sorted := slices.SortedStableFunc(slices.Values(batch), func(a, b *record) int { return a.compare(b) })
		points := make([][]float64, len(sorted))
		for i, r := range sorted {
			points[i] = m.toUnit(r.x)
		}
		s.tell(points)
		if s.converged() {
			next := newCMAState(d, 2*s.lambda, nil, sigma)
			next.restarts = s.restarts + 1
			next.mean = sobolPoint(sobolMatrices(d), uint32(next.restarts), 1)
			c.cache.state = next
		}
	}
	return c.cache.state
}

// add takes note of the records of a population.
func (c *cmaCache) add(recs []*record) {
	for _, r := range recs {
		c.used = append(c.used, cmaUsed{r.number, r.score})
	}
}

// centre replaces what a trial did not have by the middle.
func centre(u []float64) []float64 {
	for i := range u {
		if math.IsNaN(u[i]) {
			u[i] = 0.5
		}
	}
	return u
}

// propose returns values for the model's dims.
func (c *CMAES) propose(m *model, s *cmaState, given []float64, rng *rand.Rand) []float64 {
	least := make([]float64, len(m.dims))
	for i, d := range m.dims {
		if n := d.size(); n > 1 && n < math.Inf(1) {
			least[i] = 0.4 / n
		}
	}
	return m.fromUnit(s.sample(least, rng), given)
}

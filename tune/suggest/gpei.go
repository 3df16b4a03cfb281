package suggest

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/internal/forecast"
)

// GP proposes where a Gaussian process expects the most improvement (Jones, Schonlau and Welch 1998, equation 15): Matérn-5/2
// with a length scale for each input, hyper-parameters by maximum a posteriori.
//
// Running trials have no value yet: their values are drawn from the process, several times, and the improvement is
// averaged over the draws (Snoek, Larochelle and Adams 2012, section 3.2), so that many trials at once spread. Inputs are
// the unit cube; the values of a choice are all as far from each other, a number that is not there stands in the middle.
// The branch of a conditional space is chosen first, as by TPE.
type GP struct {
	// Startup is the number of trials that have finished or run below which proposals are quasi-random; three must have finished. Zero is 10.
	Startup int
	// Candidates is the number of points that are looked at before the best ones are refined. Zero is 500.
	Candidates int
	// MaxPoints bounds the trials in the process, whose cost grows with their cube: half of it the best, half the
	// newest. Zero is 240.
	MaxPoints int

	reader   reader
	matrices []sobolMatrix
	cache    gpCache
	foretold forecast.Cache
}

// Suggest implements tune.Suggester.
func (g *GP) Suggest(v tune.View, number int, rng *rand.Rand) (tune.Params, error) {
	m, recs := g.reader.read(v)
	if g.reader.stepped {
		if told := g.foretell(m, recs); told != nil {
			return told.suggest(v, number, rng)
		}
	}
	fixed := v.Fixed(number)
	given := m.given(fixed)
	if starting(recs, g.startup()) || finished(recs) < 2 || m.size(given) == 1 {
		return m.params(m.startPoint(recs, given, &g.matrices, v.Seed(), number, rng), fixed)
	}
	part, within := m.branches(recs, given, branchExplore, rng)
	x := m.fresh(recs, part, rng, func() []float64 { return g.propose(m, recs, part, rng) })
	if len(within) < len(recs) && has(within, hash(m.settle(x))) { // all of the branch has been tried
		x = m.fresh(recs, given, rng, func() []float64 { return g.propose(m, recs, given, rng) })
	}
	return m.params(x, fixed)
}

// gpCache keeps the hyper-parameters fitted to some points, so that they need not be found again at each proposal.
type gpCache struct {
	key   uint64
	theta gpTheta
}

// gpFantasies is how many sets of values are drawn for running trials.
const gpFantasies = 8

// gpFantasySD is the draws' standard deviation as a part of the process's. With whole draws a proposal must be better than
// the best of several values that nobody has seen, and while trials are few it goes far away.
const gpFantasySD = 0.5

func (g *GP) startup() int {
	if g.Startup > 0 {
		return g.Startup
	}
	return 10
}

// encode maps values to the process's inputs: numbers to [0, 1], choices to whole numbers. See gap.
func (m *model) encode(x []float64) []float64 {
	in := make([]float64, len(x))
	for i, d := range m.dims {
		missing := math.IsNaN(x[i])
		switch {
		case d.choices > 0 && missing:
			in[i] = -1
		case d.choices > 0:
			in[i] = x[i]
		case missing:
			in[i] = 0.5
		default:
			in[i] = d.toUnit(x[i])
		}
	}
	return in
}

// normalise turns scores (larger is better) into values to make small, of mean 0 and variance 1. What is much worse than
// the median is pressed together logarithmically first: how bad a bad trial was says little.
func normalise(scores []float64) []float64 {
	y := make([]float64, len(scores))
	worst := math.Inf(1)
	for _, s := range scores {
		if !math.IsInf(s, 0) && !math.IsNaN(s) {
			worst = min(worst, s)
		}
	}
	if math.IsInf(worst, 0) {
		worst = 0
	}
	for i, s := range scores {
		if math.IsInf(s, 0) || math.IsNaN(s) {
			s = worst
		}
		y[i] = -s
	}
	sorted := slices.Sorted(slices.Values(y))
	mid := sorted[len(sorted)/2]
	if unit := mid - sorted[0]; unit > 0 {
		for i := range y {
			if over := (y[i] - mid) / unit; over > 0 {
				y[i] = mid + unit*math.Log1p(over)
			}
		}
	}
	mean, variance := 0.0, 0.0
	for _, v := range y {
		mean += v / float64(len(y))
	}
	for _, v := range y {
		variance += (v - mean) * (v - mean) / float64(len(y))
	}
	sd := math.Sqrt(variance)
	if sd < 1e-300 {
		sd = 1
	}
	for i := range y {
		y[i] = (y[i] - mean) / sd
	}
	return y
}

// choose takes those of the finished records, as they ended, that the process is conditioned on.
func (g *GP) choose(done []*record) []*record {
	limit := g.MaxPoints
	if limit <= 0 {
		limit = 240
	}
	if len(done) <= limit {
		return done
	}
	newest := done[len(done)-limit/2:]
	older := slices.Clone(done[:len(done)-limit/2])
	slices.SortStableFunc(older, func(a, b *record) int { return a.compare(b) })
	older = older[:limit-limit/2]
	slices.SortFunc(older, byEnd)
	return append(older, newest...)
}

// points are the inputs and scores of records.
func (m *model) points(data []*record) (x [][]float64, scores []float64) {
	mid := medianScore(data)
	for _, r := range data {
		score := r.score
		if r.state == recordPruned { // its final value is not known, but was not going to be good
			score = min(score, mid)
		}
		x, scores = append(x, m.encode(r.x)), append(scores, score)
	}
	penalise(data, scores)
	return x, scores
}

// fit finds the hyper-parameters from the first m finished trials, m growing by steps of a tenth, so that one fit serves
// several proposals and still depends on the trials alone.
func (g *GP) fit(s *model, done []*record) gpTheta {
	m := min(4, len(done))
	for next := m; next <= len(done); next += max(1, next/10) {
		m = next
	}
	x, scores := s.points(g.choose(done[:m]))
	key := mix(uint64(m))
	for i := range x {
		key = mix(key ^ math.Float64bits(scores[i]))
		for _, v := range x[i] {
			key = mix(key ^ math.Float64bits(v))
		}
	}
	if g.cache.theta == nil || g.cache.key != key {
		g.cache = gpCache{key, fitGP(x, normalise(scores))}
	}
	return g.cache.theta
}

// propose returns values for the model's dims.
func (g *GP) propose(s *model, recs []record, given []float64, rng *rand.Rand) []float64 {
	done := byTheirEnd(recs)
	data := g.choose(done)
	x, scores := s.points(data)
	y := normalise(scores)
	process := newGP(g.fit(s, done), x, y)
	var running [][]float64
	for i := range recs {
		if recs[i].state == recordRunning {
			running = append(running, s.encode(recs[i].x))
		}
	}
	if len(running) > 0 {
		process = fantasise(process, y, running[max(0, len(running)-64):], rng)
	}
	predictor := process.predictor()
	return g.search(s, process.least(), func(x []float64) ([]float64, float64) {
		sd := predictor.at(x)
		return predictor.means, sd
	}, data, given, rng)
}

func medianScore(data []*record) float64 {
	var all []float64
	for _, r := range data {
		if r.state == recordComplete {
			all = append(all, r.score)
		}
	}
	if len(all) == 0 {
		return math.Inf(1)
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// fantasise conditions the process on draws of the values at more points, gpFantasies sets of them, each point drawn given
// those before it.
func fantasise(g *gp, y []float64, more [][]float64, rng *rand.Rand) *gp {
	sets := make([][]float64, gpFantasies)
	for i := range sets {
		sets[i] = slices.Clone(y)
	}
	for _, p := range more {
		pr := newGP(g.theta, g.x, sets...).predictor()
		sd := pr.at(p)
		for i := range sets {
			sets[i] = append(sets[i], pr.means[i]+gpFantasySD*sd*rng.NormFloat64())
		}
		g = &gp{theta: g.theta, x: append(slices.Clip(g.x), p)}
	}
	return newGP(g.theta, g.x, sets...)
}

// logImprovement is the log of the expected improvement below best of N(mean, sd²), right to the digits also where the
// improvement itself would be 0 (Ament et al. 2023, section 4).
func logImprovement(best, mean, sd float64) float64 {
	z := (best - mean) / sd
	if z > -25 {
		return math.Log(sd) + math.Log(normalPDF(z)+z*normalCDF(z))
	}
	// φ(z) + z·Φ(z) = φ(z)·(1/z² − 3/z⁴ + …)
	return math.Log(sd) - 0.5*z*z - logSqrt2Pi - 2*math.Log(-z) + math.Log1p(-3/(z*z))
}

// search looks at candidates all over the space and around the best trials, and refines the most promising ones: at returns the means to make
// small, one for each of bests, and the standard deviation.
func (g *GP) search(s *model, bests []float64, at func(x []float64) ([]float64, float64), data []*record, given []float64, rng *rand.Rand) []float64 {
	terms := make([]float64, len(bests))
	value := func(x []float64) float64 {
		means, sd := at(s.encode(x))
		for i := range terms {
			terms[i] = logImprovement(bests[i], means[i], sd)
		}
		return logSumExp(terms)
	}
	type point struct {
		u, x []float64
		v    float64
	}
	var all []point
	add := func(u []float64) point {
		x := s.fromUnit(u, given)
		pt := point{u, x, value(x)}
		all = append(all, pt)
		return pt
	}
	n := g.Candidates
	if n <= 0 {
		n = 500
	}
	for range n {
		u := make([]float64, len(s.dims))
		for i := range u {
			u[i] = rng.Float64()
		}
		add(u)
	}
	top := slices.Clone(data)
	slices.SortStableFunc(top, func(a, b *record) int { return a.compare(b) })
	for _, r := range top[:min(3, len(top))] {
		for k := range 30 {
			add(s.nudge(centre(s.toUnit(r.x)), s.open(r.x, given), []float64{0.1, 0.03, 0.01}[k%3], rng))
		}
	}
	slices.SortStableFunc(all, func(a, b point) int { return cmp.Compare(b.v, a.v) })
	best := all[0]
	for _, start := range slices.Clone(all[:min(4, len(all))]) {
		at, sd := start, 0.08
		for range 60 {
			if next := add(s.nudge(at.u, s.open(at.x, given), sd, rng)); next.v > at.v {
				at, sd = next, min(sd*1.5, 0.2)
			} else {
				sd = max(sd*0.9, 1e-3)
			}
		}
		if at.v > best.v {
			best = at
		}
	}
	return best.x
}

// open are the dims that are there at x and not given.
func (m *model) open(x, given []float64) []int {
	var out []int
	for i := range x {
		if !math.IsNaN(x[i]) && (given == nil || math.IsNaN(given[i])) {
			out = append(out, i)
		}
	}
	return out
}

// nudge moves some coordinates of a point of the unit cube by normal steps, reflected at the walls; a choice is drawn anew
// now and then.
func (m *model) nudge(u []float64, open []int, sd float64, rng *rand.Rand) []float64 {
	out := slices.Clone(u)
	all := rng.IntN(2) == 0
	if !all && len(open) > 0 {
		open = []int{open[rng.IntN(len(open))]}
	}
	for _, i := range open {
		d := m.dims[i]
		if d.choices > 0 {
			if !all || rng.Float64() < 0.1 {
				out[i] = rng.Float64()
			}
			continue
		}
		step := sd
		if n := d.size(); n < math.Inf(1) {
			step = max(sd, 0.7/n)
		}
		out[i] += step * rng.NormFloat64()
		out[i] = math.Abs(out[i])
		if out[i] = math.Mod(out[i], 2); out[i] >= 1 {
			out[i] = math.Nextafter(2-out[i], 0)
		}
		out[i] = min(out[i], 1-1e-12)
	}
	return out
}

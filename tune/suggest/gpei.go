package suggest

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/internal/forecast"
)

// GP proposes where a Gaussian process expects the most improvement (Jones, Schonlau and Welch
// 1998, equation 15): Matérn-5/2 with a length scale for each input, hyper-parameters by maximum a
// posteriori.
//
// Running trials have no value yet: they count as if they had ended at the process's mean
// (Ginsbourger, Le Riche and Carraro 2010, section 4.2), so that many trials at once spread, and
// numbers are proposed within 0.4 of their range of the best trial's. Where trials report more than
// one step, their values are drawn from the process, given what they have reported, several times,
// and the improvement is averaged over the draws (Snoek, Larochelle and Adams 2012, section 3.2).
// Inputs are the unit cube; the values of a choice are all as far from each other, a number that is
// not there stands in the middle. The branch of a conditional space is chosen first, as by TPE.
type GP struct {
	// Startup is the number of trials that have finished or run below which proposals are
	// quasi-random; three must have finished. Zero is 10.
	Startup int
	// Candidates is the number of points that are looked at before the best ones are refined.
	// Zero is 500.
	Candidates int
	// MaxPoints bounds the trials in the process, whose cost grows with their cube: half of it
	// the best, half the newest. Zero is 240.
	MaxPoints int
	// Per is what expected improvement is divided by: Time, or a metric by which trials report
	// what they have cost so far, such as the seconds of all GPUs. It is predicted from the
	// trials that have ended. "" divides by nothing.
	Per string

	reader   reader
	pricing  pricing
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
	x := m.fresh(recs, part, rng, func() []float64 { return g.propose(v, m, recs, part, rng) })
	// Every setting of the branch has been tried.
	if len(within) < len(recs) && has(within, hash(m.settle(x))) {
		x = m.fresh(recs, given, rng, func() []float64 { return g.propose(v, m, recs, given, rng) })
	}
	return m.params(x, fixed)
}

// gpCache keeps the hyper-parameters fitted to some points, so that they need not be found again at
// each proposal.
type gpCache struct {
	key   uint64
	theta gpTheta
}

// gpReach is how far from the best trial numbers are proposed while trials run, as a part of their
// range. Eight proposals in a row know the same few results; without it most of them go to the far
// ends of the space, where the process knows least.
const gpReach = 0.4

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

// normalise turns scores (larger is better) into values to make small, of mean 0 and variance 1.
// What is much worse than the median is pressed together logarithmically first: how bad a bad trial
// was says little.
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
		// A pruned trial's final value is not known, but it was not going to be good.
		if r.state == recordPruned {
			score = min(score, mid)
		}
		x, scores = append(x, m.encode(r.x)), append(scores, score)
	}
	penalise(data, scores)
	return x, scores
}

// fit finds the hyper-parameters from the first m finished trials, m growing by steps of a tenth,
// so that one fit serves several proposals and still depends on the trials alone.
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
func (g *GP) propose(v tune.View, s *model, recs []record, given []float64, rng *rand.Rand) []float64 {
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
	var near []float64
	if len(running) > 0 {
		process = process.believe(running[max(0, len(running)-64):])
		near = s.bestUnder(data, given)
	}
	predictor := process.predictor()
	at := func(x []float64) ([]float64, float64) {
		sd := predictor.at(x)
		return predictor.means, sd
	}
	return g.search(&hunt{m: s, bests: process.least(), at: at, price: g.weigh(v, s, done), given: given, near: near, rng: rng}, data)
}

// bestUnder is the point of the best trial that has the given values, in the unit cube; nil if
// there is none.
func (m *model) bestUnder(data []*record, given []float64) []float64 {
	var best *record
	for _, r := range data {
		has := true
		for i, v := range given {
			has = has && (math.IsNaN(v) || r.x[i] == v)
		}
		if has && (best == nil || r.compare(best) < 0) {
			best = r
		}
	}
	if best == nil {
		return nil
	}
	return centre(m.toUnit(best.x))
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

// believe is the process as if it had been told its own means at more points: the means stay, and
// nothing is left to learn there.
func (g *gp) believe(more [][]float64) *gp {
	p := g.predictor()
	x, y := slices.Clip(g.x), slices.Clip(g.y[0])
	for _, at := range more {
		p.at(at)
		x, y = append(x, at), append(y, p.means[0])
	}
	return newGP(g.theta, x, y)
}

// logImprovement is the log of the expected improvement below best of N(mean, sd²), right to the
// digits also where the improvement itself would be 0 (Ament et al. 2023, section 4).
func logImprovement(best, mean, sd float64) float64 {
	z := (best - mean) / sd
	if z > -25 {
		return math.Log(sd) + math.Log(normalPDF(z)+z*normalCDF(z))
	}
	// φ(z) + z·Φ(z) = φ(z)·(1/z² − 3/z⁴ + …)
	return math.Log(sd) - 0.5*z*z - logSqrt2Pi - 2*math.Log(-z) + math.Log1p(-3/(z*z))
}

// A hunt is a search for the most promising point of the unit cube.
type hunt struct {
	m *model
	// at returns the means to make small, one for each of bests, and the standard deviation.
	bests []float64
	at    func(x []float64) ([]float64, float64)
	price *weighing
	// given are the values that are fixed. Unless near is nil, numbers are within gpReach of
	// it, except those of candidates around the best trials.
	given, near []float64
	rng         *rand.Rand

	terms []float64
	seen  []candidate
}

// A candidate is a point that a hunt has looked at: u in the unit cube, x in values, v how
// promising it is.
type candidate struct {
	u, x []float64
	v    float64
}

// look looks at a point.
func (h *hunt) look(u []float64) candidate {
	x := h.m.fromUnit(u, h.given)
	in := h.m.encode(x)
	means, sd := h.at(in)
	for i := range h.terms {
		h.terms[i] = logImprovement(h.bests[i], means[i], sd)
	}
	c := candidate{u, x, logSumExp(h.terms) - h.price.at(in)}
	h.seen = append(h.seen, c)
	return c
}

// search looks at candidates all over the space and around the best trials, and refines the most
// promising ones.
func (g *GP) search(h *hunt, data []*record) []float64 {
	h.terms = make([]float64, len(h.bests))
	n := g.Candidates
	if n <= 0 {
		n = 500
	}
	for range n {
		u := make([]float64, len(h.m.dims))
		for i := range u {
			low, high := h.m.reach(h.near, i)
			u[i] = low + (high-low)*h.rng.Float64()
		}
		h.look(u)
	}
	h.lookAround(data)
	slices.SortStableFunc(h.seen, func(a, b candidate) int { return cmp.Compare(b.v, a.v) })
	best := h.seen[0]
	for _, start := range slices.Clone(h.seen[:min(4, len(h.seen))]) {
		if at := h.refine(start); at.v > best.v {
			best = at
		}
	}
	return best.x
}

// lookAround looks at points around the best trials.
func (h *hunt) lookAround(data []*record) {
	top := slices.Clone(data)
	slices.SortStableFunc(top, func(a, b *record) int { return a.compare(b) })
	for _, r := range top[:min(3, len(top))] {
		for k := range 30 {
			h.look(h.m.nudge(centre(h.m.toUnit(r.x)), h.m.open(r.x, h.given), []float64{0.1, 0.03, 0.01}[k%3], h.rng))
		}
	}
}

// refine climbs from a point by random steps, which grow when one was good and shrink when it was
// not.
func (h *hunt) refine(at candidate) candidate {
	sd := 0.08
	for range 60 {
		u := h.m.nudge(at.u, h.m.open(at.x, h.given), sd, h.rng)
		for i := range u {
			low, high := h.m.reach(h.near, i)
			u[i] = min(max(u[i], low), high)
		}
		if next := h.look(u); next.v > at.v {
			at, sd = next, min(sd*1.5, 0.2)
		} else {
			sd = max(sd*0.9, 1e-3)
		}
	}
	return at
}

// reach are the bounds of dim i in the unit cube within gpReach of near; choices, and all dims if
// near is nil, have no others than those of the cube.
func (m *model) reach(near []float64, i int) (low, high float64) {
	if near == nil || m.dims[i].choices > 0 {
		return 0, 1
	}
	return max(0, near[i]-gpReach), min(1, near[i]+gpReach)
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

// nudge moves some coordinates of a point of the unit cube by normal steps, reflected at the walls;
// a choice is drawn anew now and then.
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

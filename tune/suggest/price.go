package suggest

import (
	"math"
	"slices"
	"time"

	"github.com/paragon-train/paragon/tune"
)

// Time, as the Per of a suggester, is the time for which trials train.
const Time = "time"

// A pricing predicts what trials cost: a Gaussian process for the logarithm of the cost (Snoek,
// Larochelle and Adams 2012, section 3.2), conditioned on the trials that have ended.
type pricing struct {
	cache gpCache
}

// priceLeast is how many costs must be known before any is predicted, and priceSpread the standard
// deviation of their logarithms below which trials cost the same.
const (
	priceLeast  = 4
	priceSpread = 0.05
)

// pricePoints bounds the trials that the process is conditioned on: the newest ones.
const pricePoints = 240

// A price predicts costs.
type price struct {
	predictor *gpPredictor
	// mean and sd are those of the logarithms of the costs.
	mean, sd float64
}

// log is the logarithm of the cost expected at the process's inputs.
func (p *price) log(in []float64) float64 { return p.mean + p.sd*p.predictor.mean(in) }

// mean is the posterior mean of the first set of values at x.
func (p *gpPredictor) mean(x []float64) float64 {
	sum := 0.0
	alpha := p.g.alpha[0].RawVector().Data
	for i, xi := range p.g.x {
		m, _ := matern(p.g.theta.distance(x, xi, p.inv))
		sum += p.v * m * alpha[i]
	}
	return sum
}

// costOf is what a trial has cost; NaN: not known.
func costOf(t *tune.Trial, per string) float64 {
	if per == Time {
		if t.Origin == tune.FromElsewhere {
			return math.NaN()
		}
		return t.Elapsed.Seconds()
	}
	for _, r := range slices.Backward(t.Reports) {
		if cost, ok := r.Metrics.Get(per); ok {
			return cost
		}
	}
	return math.NaN()
}

// fit predicts costs; nil: too few are known, or all are the same. done are finished records, as
// they ended.
func (p *pricing) fit(v tune.View, m *model, per string, done []*record) *price {
	// A trial that was stopped early would have cost more: as many steps as those that trained
	// to their end.
	var last []int
	for _, r := range done {
		if t := v.Trial(r.number); t.State == tune.Completed {
			if step, ok := t.LastStep(); ok {
				last = append(last, step)
			}
		}
	}
	whole := 0
	if len(last) > 0 {
		slices.Sort(last)
		whole = last[len(last)/2]
	}
	var x [][]float64
	var y []float64
	for _, r := range done {
		t := v.Trial(r.number)
		cost := costOf(t, per)
		if step, ok := t.LastStep(); ok && t.State != tune.Completed && step > 0 {
			cost *= float64(max(whole, step)) / float64(step)
		}
		if cost > 0 && !math.IsInf(cost, 0) {
			x, y = append(x, m.encode(r.x)), append(y, math.Log(cost))
		}
	}
	if len(y) < priceLeast {
		return nil
	}
	mean, sd := meanAndSD(y)
	if sd < priceSpread {
		return nil
	}
	for i := range y {
		y[i] = (y[i] - mean) / sd
	}
	// As for values, one fit of the hyper-parameters serves several proposals.
	n := priceLeast
	for next := n; next <= len(y); next += max(1, next/10) {
		n = next
	}
	key := mix(uint64(n))
	for i := range n {
		key = mix(key ^ math.Float64bits(y[i]*sd+mean))
	}
	if p.cache.theta == nil || p.cache.key != key {
		from := max(0, n-pricePoints)
		p.cache = gpCache{key, fitGP(x[from:n], y[from:n])}
	}
	from := max(0, len(x)-pricePoints)
	return &price{newGP(p.cache.theta, x[from:], y[from:]).predictor(), mean, sd}
}

// meanAndSD are the mean and the standard deviation.
func meanAndSD(y []float64) (mean, sd float64) {
	for _, v := range y {
		mean += v / float64(len(y))
	}
	for _, v := range y {
		sd += (v - mean) * (v - mean) / float64(len(y))
	}
	return mean, math.Sqrt(sd)
}

// A weighing divides an expected improvement by the cost that is expected: it subtracts logarithms.
// A nil weighing subtracts nothing.
type weighing struct {
	price *price
	// left is the logarithm of the seconds until the deadline; +Inf: there is none.
	left float64
}

// priceMargin is by how much more than predicted a trial may take that is to end before the
// deadline, as a logarithm.
const priceMargin = 0.1

// tooLong is what a trial that does not end before the deadline loses, for each unit of the
// logarithm.
const tooLong = 100

// at is what the point loses.
func (w *weighing) at(in []float64) float64 {
	if w == nil {
		return 0
	}
	cost := w.price.log(in)
	return cost + tooLong*max(0, cost+priceMargin-w.left)
}

// weigh is the weighing of a proposal now.
func (g *GP) weigh(v tune.View, m *model, done []*record) *weighing {
	if g.Per == "" {
		return nil
	}
	price := g.pricing.fit(v, m, g.Per, done)
	if price == nil {
		return nil
	}
	w := &weighing{price: price, left: math.Inf(1)}
	plan := v.Plan()
	if plan.Ends > 0 && g.Per == Time {
		w.left = math.Log(max((plan.Ends - v.Elapsed()).Seconds(), 1e-9))
	}
	return w
}

// takes is how long a trial with these parameters is going to take.
func (g *GP) takes(v tune.View, p tune.Params) (time.Duration, bool) {
	if g.Per != Time {
		return 0, false
	}
	m, recs := g.reader.read(v)
	price := g.pricing.fit(v, m, g.Per, byTheirEnd(recs))
	if price == nil {
		return 0, false
	}
	return time.Duration(math.Exp(price.log(m.encode(m.values(p)))) * float64(time.Second)), true
}

// Takes implements tune.Timed.
func (g *GP) Takes(v tune.View, p tune.Params) (time.Duration, bool) { return g.takes(v, p) }

// Takes implements tune.Timed.
func (a *Auto) Takes(v tune.View, p tune.Params) (time.Duration, bool) {
	a.gp.Per = a.Per
	return a.gp.takes(v, p)
}

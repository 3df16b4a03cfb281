package curvetest

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/paragon-train/paragon/tune"
)

// A surface says how far a point of the space is from the best one. It is 0 at the best point, and
// there alone.
type surface struct {
	axes  []axis
	pairs []pair
	scale float64
}

// An axis is a parameter's part of the surface.
type axis struct {
	param tune.Param
	// at is the parameter's best value in units of its range, weight how much the square of the
	// distance from it counts.
	at, weight float64
	// speed is how much faster a training is at the upper end of the range than at the lower
	// one.
	speed float64
	// costs are those of the values of a choice, the best one's 0. Then at and weight are not
	// used.
	costs map[any]float64
}

// A pair is a valley across two axes: what counts is the square of the sum of their distances, the
// second times slope.
type pair struct {
	first, second int
	slope, weight float64
}

// unit is the parameter's value in units of its range, and whether the point has it and it is a
// number.
func (a *axis) unit(q tune.Params) (float64, bool) {
	v, ok := q.Get(a.param.Name)
	if !ok || a.costs != nil {
		return 0, false
	}
	return a.param.ToUnit(v), true
}

// distance is how far the point is from the best one on an axis, with its sign; 0 if it has none.
func (s *surface) distance(q tune.Params, i int) float64 {
	if i >= len(s.axes) {
		return 0
	}
	u, ok := s.axes[i].unit(q)
	if !ok {
		return 0
	}
	return u - s.axes[i].at
}

// speed is how much faster a training at the point is than one at the best point, from −1.5 to 1.5.
func (s *surface) speed(q tune.Params) float64 {
	sum := 0.0
	for i := range s.axes {
		sum += s.axes[i].speed * s.distance(q, i)
	}
	return 1.5 * math.Tanh(sum/1.5)
}

// loss is how far the point is from the best one.
func (s *surface) loss(q tune.Params) float64 {
	sum := 0.0
	for i := range s.axes {
		a := &s.axes[i]
		if a.costs != nil {
			if v, ok := q.Get(a.param.Name); ok {
				sum += a.costs[v]
			}
			continue
		}
		d := s.distance(q, i)
		sum += a.weight * d * d
	}
	for _, p := range s.pairs {
		d := s.distance(q, p.first) + p.slope*s.distance(q, p.second)
		sum += p.weight * d * d
	}
	return s.scale * sum
}

// between draws a number from low to high.
func between(rng *rand.Rand, low, high float64) float64 { return low + (high-low)*rng.Float64() }

// drawSurface draws a space of n parameters, the first of which is the learning rate and the next
// two numbers, if there are that many, and where its best point is. Random search over it comes
// within points of top−chance after 100 draws.
func drawSurface(rng *rand.Rand, n int, top, chance float64) (tune.Space, surface) {
	a := &artist{rng: rng, n: n}
	a.number(tune.Real("learning rate", 1e-5, 1).Log(), 0.4, 0.7, between(rng, 6, 10))
	a.drawAxes()
	a.drawPairs()
	s := a.surface
	space := make(tune.Space, len(s.axes))
	for i := range s.axes {
		space[i] = s.axes[i].param
	}
	points := 2 + 1.3*float64(n)
	s.scale = 1
	s.scale = -math.Log(1-points/(top-chance)) / s.easyLoss(rng, space)
	return space, s
}

// An artist draws a surface of n parameters. The order in which it asks for random numbers is part
// of what it draws.
type artist struct {
	surface
	rng *rand.Rand
	n   int
}

// number draws a parameter that is a number, best between low and high of its unit range.
func (a *artist) number(p tune.Param, low, high, weight float64) {
	v := p.FromUnit(between(a.rng, low, high))
	a.axes = append(a.axes, axis{param: p, at: p.ToUnit(v), weight: weight, speed: 1.5 * a.rng.NormFloat64()})
}

// choice draws a parameter that is a choice, with the costs of its values but the best one.
func (a *artist) choice(p tune.Param, best int) {
	costs := make(map[any]float64)
	for i, v := range p.Values {
		if costs[v] = between(a.rng, 0.1, 0.7); i == best {
			costs[v] = 0
		}
	}
	a.axes = append(a.axes, axis{param: p, costs: costs})
}

// drawAxes draws the parameters after the first, numbers and choices by turns at random.
func (a *artist) drawAxes() {
	rng := a.rng
	numbers := []tune.Param{
		tune.Real("decay", 1e-7, 1e-1).Log(), tune.Int("width", 16, 1024).Log(), tune.Int("batch", 8, 512).Log(), tune.Real("dropout", 0, 0.8),
		tune.Int("layers", 1, 8), tune.Real("smoothing", 0, 0.4),
	}
	rng.Shuffle(len(numbers), func(i, j int) { numbers[i], numbers[j] = numbers[j], numbers[i] })
	for len(a.axes) < min(a.n, 3) {
		a.number(numbers[0], 0.2, 0.8, between(rng, 1.5, 5))
		numbers = numbers[1:]
	}
	branches := []func(){a.optimizer, a.activation, a.augmentation}
	rng.Shuffle(len(branches), func(i, j int) { branches[i], branches[j] = branches[j], branches[i] })
	for len(a.axes) < a.n {
		if len(branches) > 0 && (rng.IntN(2) == 0 || len(numbers) == 0) {
			branches[0]()
			branches = branches[1:]
			continue
		}
		a.number(numbers[0], 0.15, 0.85, between(rng, 0.5, 3))
		numbers = numbers[1:]
	}
}

// optimizer draws a choice of which one value has a number of its own.
func (a *artist) optimizer() {
	best := a.rng.IntN(3)
	a.choice(tune.Choice("optimizer", "sgd", "adam", "lamb"), best)
	if len(a.axes) < a.n {
		a.number(tune.Real("momentum", 0, 0.99).When("optimizer", "sgd"), 0.4, 0.95, between(a.rng, 1, 3))
	}
}

// activation draws a choice of four.
func (a *artist) activation() {
	a.choice(tune.Choice("activation", "relu", "gelu", "tanh", "swish"), a.rng.IntN(4))
}

// augmentation draws a choice of which two values share a number.
func (a *artist) augmentation() {
	best := a.rng.IntN(3)
	a.choice(tune.Choice("augmentation", "none", "crop", "mix"), best)
	if len(a.axes) < a.n {
		a.number(tune.Real("strength", 0, 1).When("augmentation", "crop", "mix"), 0.2, 0.8, between(a.rng, 1, 3))
	}
}

// drawPairs draws numbers whose best values depend on each other.
func (a *artist) drawPairs() {
	for range a.n / 2 {
		i, j := a.rng.IntN(len(a.axes)), a.rng.IntN(len(a.axes))
		if i != j && a.axes[i].costs == nil && a.axes[j].costs == nil {
			a.pairs = append(a.pairs, pair{i, j, between(a.rng, -1, 1), between(a.rng, 0.5, 3)})
		}
	}
}

// easyLoss is a loss that one of a hundred random draws keeps.
func (s *surface) easyLoss(rng *rand.Rand, space tune.Space) float64 {
	losses := make([]float64, 2000)
	for i := range losses {
		q, err := space.Sample(rng, tune.Params{})
		if err != nil {
			// It cannot fail: drawSurface has made the space.
			panic(err)
		}
		losses[i] = s.loss(q)
	}
	slices.Sort(losses)
	return losses[len(losses)/100]
}

// withEpochs adds the number of steps as a parameter, which is best at four to nine tenths of its
// range.
func withEpochs(rng *rand.Rand, space tune.Space, s surface, last int) (tune.Space, surface) {
	p := tune.Int("epochs", max(last/5, 1), last)
	v := p.FromUnit(between(rng, 0.4, 0.9))
	s.axes = append(s.axes, axis{param: p, at: p.ToUnit(v), weight: between(rng, 1, 3)})
	return append(space, p), s
}

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
	var s surface
	number := func(p tune.Param, low, high, weight float64) {
		v := p.FromUnit(between(rng, low, high))
		s.axes = append(s.axes, axis{param: p, at: p.ToUnit(v), weight: weight, speed: 1.5 * rng.NormFloat64()})
	}
	choice := func(p tune.Param, best int) {
		costs := make(map[any]float64)
		for i, v := range p.Values {
			if costs[v] = between(rng, 0.1, 0.7); i == best {
				costs[v] = 0
			}
		}
		s.axes = append(s.axes, axis{param: p, costs: costs})
	}
	number(tune.Real("learning rate", 1e-5, 1).Log(), 0.4, 0.7, between(rng, 6, 10))
	numbers := []tune.Param{
		tune.Real("decay", 1e-7, 1e-1).Log(), tune.Int("width", 16, 1024).Log(), tune.Int("batch", 8, 512).Log(), tune.Real("dropout", 0, 0.8),
		tune.Int("layers", 1, 8), tune.Real("smoothing", 0, 0.4),
	}
	rng.Shuffle(len(numbers), func(i, j int) { numbers[i], numbers[j] = numbers[j], numbers[i] })
	for len(s.axes) < min(n, 3) {
		number(numbers[0], 0.2, 0.8, between(rng, 1.5, 5))
		numbers = numbers[1:]
	}
	branches := []func(){
		func() {
			best := rng.IntN(3)
			p := tune.Choice("optimizer", "sgd", "adam", "lamb")
			choice(p, best)
			if len(s.axes) < n {
				number(tune.Real("momentum", 0, 0.99).When("optimizer", "sgd"), 0.4, 0.95, between(rng, 1, 3))
			}
		},
		func() {
			choice(tune.Choice("activation", "relu", "gelu", "tanh", "swish"), rng.IntN(4))
		},
		func() {
			best := rng.IntN(3)
			choice(tune.Choice("augmentation", "none", "crop", "mix"), best)
			if len(s.axes) < n {
				number(tune.Real("strength", 0, 1).When("augmentation", "crop", "mix"), 0.2, 0.8, between(rng, 1, 3))
			}
		},
	}
	rng.Shuffle(len(branches), func(i, j int) { branches[i], branches[j] = branches[j], branches[i] })
	for len(s.axes) < n {
		if len(branches) > 0 && (rng.IntN(2) == 0 || len(numbers) == 0) {
			branches[0]()
			branches = branches[1:]
			continue
		}
		number(numbers[0], 0.15, 0.85, between(rng, 0.5, 3))
		numbers = numbers[1:]
	}
	for range n / 2 {
		i, j := rng.IntN(len(s.axes)), rng.IntN(len(s.axes))
		if i != j && s.axes[i].costs == nil && s.axes[j].costs == nil {
			s.pairs = append(s.pairs, pair{i, j, between(rng, -1, 1), between(rng, 0.5, 3)})
		}
	}
	space := make(tune.Space, len(s.axes))
	for i := range s.axes {
		space[i] = s.axes[i].param
	}
	s.scale = 1
	losses := make([]float64, 2000)
	for i := range losses {
		q, err := space.Sample(rng, tune.Params{})
		if err != nil {
			panic(err) // the space is this function's
		}
		losses[i] = s.loss(q)
	}
	slices.Sort(losses)
	points := 2 + 1.3*float64(n)
	s.scale = -math.Log(1-points/(top-chance)) / losses[len(losses)/100]
	return space, s
}

// withEpochs adds the number of steps as a parameter, which is best at four to nine tenths of its
// range.
func withEpochs(rng *rand.Rand, space tune.Space, s surface, last int) (tune.Space, surface) {
	p := tune.Int("epochs", max(last/5, 1), last)
	v := p.FromUnit(between(rng, 0.4, 0.9))
	s.axes = append(s.axes, axis{param: p, at: p.ToUnit(v), weight: between(rng, 1, 3)})
	return append(space, p), s
}

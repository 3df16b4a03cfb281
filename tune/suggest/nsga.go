package suggest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/internal/pareto"
)

// NSGA2 proposes children of the best trials so far, for one or several objectives, with or without
// constraints. It is NSGA-II (Deb et al. 2002) in its steady-state form (Durillo et al. 2009),
// which suits trials that end one by one.
//
// The population is a function of the log: finished trials join it in the order of their numbers,
// and when there are more than Population, the one that is worst leaves: of the last non-dominated
// front, the one whose neighbours are nearest (crowding distance). Of two trials a feasible one
// beats one that violates constraints, and of two such ones that which violates less. Two parents
// win binary tournaments. Their child takes numbers by simulated binary crossover, other values
// from either parent, and is mutated: numbers by the polynomial mutation, others to any value.
// Numbers cross on the scale of their parameter. A parameter that only one parent has comes from
// it; one that neither has is drawn.
type NSGA2 struct {
	// Population is the number of parents. The first as many trials are quasi-random. Zero is 24.
	Population int
	// Crossover is the probability that a child has two parents. Zero is 0.9, below zero is
	// never.
	Crossover float64
	// Mutation is the probability that a parameter is mutated. Zero is one parameter of a child
	// on average, below zero is never.
	Mutation float64
	// CrossoverIndex and MutationIndex are the distribution indices η: the larger, the nearer
	// is a child to its parents. Zero is 10 and 20.
	CrossoverIndex, MutationIndex float64

	reader   reader
	matrices []sobolMatrix
	// parents are the population of the trials before upTo.
	parents []int
	// joined says which of those trials had finished.
	joined []bool
	upTo   int
}

// Validate says what is wrong with the fields.
func (s *NSGA2) Validate() error {
	if s.Population < 0 || s.Population == 1 || s.CrossoverIndex < 0 || s.MutationIndex < 0 || s.Crossover > 1 || s.Mutation > 1 {
		return fmt.Errorf("suggest: NSGA2: Population %d, Crossover %v, Mutation %v, CrossoverIndex %v, MutationIndex %v: want 0 (the default) or at least 2, probabilities up to 1, and indices of 0 or more",
			s.Population, s.Crossover, s.Mutation, s.CrossoverIndex, s.MutationIndex)
	}
	return nil
}

// Suggest implements tune.Suggester.
func (s *NSGA2) Suggest(v tune.View, number int, rng *rand.Rand) (tune.Params, error) {
	if err := s.Validate(); err != nil {
		return tune.Params{}, err
	}
	m, recs := s.reader.read(v)
	fixed := v.Fixed(number)
	given := m.given(fixed)
	population := s.population(recs)
	if number < s.size() || len(population) < 2 {
		return m.params(m.startPoint(recs, given, &s.matrices, v.Seed(), number, rng), fixed)
	}
	rank, crowding := standing(recs, population)
	pick := func() []float64 {
		a, b := rng.IntN(len(population)), rng.IntN(len(population))
		if rank[b] < rank[a] || rank[b] == rank[a] && crowding[b] > crowding[a] {
			a = b
		}
		return recs[population[a]].x
	}
	x := m.fresh(recs, given, rng, func() []float64 { return s.child(m, pick(), pick(), given, rng) })
	return m.params(x, fixed)
}

func (s *NSGA2) size() int {
	if s.Population > 0 {
		return s.Population
	}
	return 24
}

// joins says whether a trial can be a parent.
func joins(r *record) bool { return r.finished() && r.scores != nil }

// population is the parents, as indices of records. Trials before the first that may still end are
// kept between calls.
func (s *NSGA2) population(recs []record) []int {
	for i := range s.upTo {
		// A trial that had failed was taken up again, so the generations are formed anew.
		if i >= len(recs) || joins(&recs[i]) != s.joined[i] {
			s.parents, s.joined, s.upTo = nil, nil, 0
			break
		}
	}
	for ; s.upTo < len(recs) && recs[s.upTo].state != recordRunning; s.upTo++ {
		in := joins(&recs[s.upTo])
		if s.joined = append(s.joined, in); in {
			s.parents = join(recs, s.parents, s.upTo, s.size())
		}
	}
	all := slices.Clone(s.parents)
	for i := s.upTo; i < len(recs); i++ {
		if joins(&recs[i]) {
			all = join(recs, all, i, s.size())
		}
	}
	return all
}

// join adds a trial to a population, from which the worst leaves if it is too large.
func join(recs []record, population []int, one, size int) []int {
	population = append(population, one)
	if len(population) <= size {
		return population
	}
	rank, crowding := standing(recs, population)
	worst := 0
	for i := range population {
		if rank[i] > rank[worst] || rank[i] == rank[worst] && crowding[i] <= crowding[worst] {
			worst = i
		}
	}
	return slices.Delete(population, worst, worst+1)
}

// standing is the front of each trial of a population, from 0, and its crowding distance there.
func standing(recs []record, population []int) (rank []int, crowding []float64) {
	points, violations := make([][]float64, len(population)), make([]float64, len(population))
	for i, n := range population {
		points[i], violations[i] = recs[n].scores, recs[n].violation
	}
	rank, crowding = make([]int, len(population)), make([]float64, len(population))
	for k, front := range pareto.Fronts(points, violations, len(points)) {
		for i, d := range pareto.Crowding(points, front) {
			rank[front[i]], crowding[front[i]] = k, d
		}
	}
	return rank, crowding
}

// child is a new point from two others.
func (s *NSGA2) child(m *model, a, b, given []float64, rng *rand.Rand) []float64 {
	crossover, mutation := s.Crossover, s.Mutation
	if crossover == 0 {
		crossover = 0.9
	}
	if mutation == 0 {
		mutation = 1 / float64(max(len(m.dims), 1))
	}
	if rng.Float64() >= crossover {
		b = a
	}
	ua, ub := m.toUnit(a), m.toUnit(b)
	u := make([]float64, len(m.dims))
	for i, d := range m.dims {
		x, y := ua[i], ub[i]
		if rng.IntN(2) == 1 {
			x, y = y, x
		}
		switch {
		case math.IsNaN(x) && math.IsNaN(y):
			u[i] = rng.Float64()
			continue
		case math.IsNaN(x):
			u[i] = y
		case math.IsNaN(y), d.choices > 0:
			u[i] = x
		case rng.IntN(2) == 1:
			u[i] = binaryCrossover(x, y, positive(s.CrossoverIndex, 10), rng)
		default:
			u[i] = x
		}
		if rng.Float64() < mutation {
			if d.choices > 0 {
				u[i] = rng.Float64()
			} else {
				u[i] = polynomialMutation(u[i], positive(s.MutationIndex, 20), rng)
			}
		}
		u[i] = min(max(u[i], 0), math.Nextafter(1, 0))
	}
	return m.fromUnit(u, given)
}

func positive(x, otherwise float64) float64 {
	if x > 0 {
		return x
	}
	return otherwise
}

// binaryCrossover is a number near x, away from or towards y, in [0, 1]: one of the two children of
// simulated binary crossover with bounds (Deb and Agrawal 1995; Deb 2000), the one on x's side.
func binaryCrossover(x, y, eta float64, rng *rand.Rand) float64 {
	distance := math.Abs(x - y)
	u := rng.Float64()
	if distance < 1e-14 {
		return x
	}
	// room is the distance from x's side to its bound.
	room := min(x, y)
	if x > y {
		room = 1 - max(x, y)
	}
	alpha := 2 - math.Pow(1+2*room/distance, -(eta+1))
	var beta float64
	if u <= 1/alpha {
		beta = math.Pow(u*alpha, 1/(eta+1))
	} else {
		beta = math.Pow(1/(2-u*alpha), 1/(eta+1))
	}
	middle := (x + y) / 2
	return min(max(middle+beta*(x-middle), 0), 1)
}

// polynomialMutation moves a number in [0, 1] (Deb and Goyal 1996, with the bounds of NSGA-II's own
// program).
func polynomialMutation(x, eta float64, rng *rand.Rand) float64 {
	u := rng.Float64()
	if u < 0.5 {
		d := math.Pow(2*u+(1-2*u)*math.Pow(1-x, eta+1), 1/(eta+1)) - 1
		return min(max(x+d, 0), 1)
	}
	d := 1 - math.Pow(2*(1-u)+2*(u-0.5)*math.Pow(x, eta+1), 1/(eta+1))
	return min(max(x+d, 0), 1)
}

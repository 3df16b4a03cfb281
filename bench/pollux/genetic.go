package main

import (
	"bytes"
	"cmp"
	"hash/maphash"
	"math"
	"math/rand/v2"
	"slices"
)

// genetic is Pollux's policy: NSGA-II, a genetic algorithm with two objectives, over the numbers of
// replicas of each job on each node. A population of 100 goes through some generations (100 in the
// paper) a decision and starts from what the decision before ended with.
//
// The first objective is the harmonic mean of speedups against a fair share of the cluster, less
// for jobs that would restart; the second is how well the slots are used. The best by the first is
// taken.
type genetic struct {
	generations int
	rng         *rand.Rand
	seed        maphash.Seed
	// front is the best of the decision before, with the jobs that its rows are of.
	front [][]uint8
	jobs  []*job

	// Of this decision.
	nodes, slots int

	// base is what jobs have now, row by row.
	base []uint8

	// most has the largest number of replicas of each job.
	most []int

	// factor is what the speed of a job is multiplied by if its row is not its base.
	factor []float64

	speed []func(nodes, replicas int) float64
}

const population = 100

func newGenetic(seed uint64, generations int) *genetic {
	return &genetic{generations: generations, rng: rand.New(rand.NewPCG(seed, 0)), seed: maphash.MakeSeed()}
}

func (g *genetic) arrive(j *job) { arriveAdaptive(j) }

// An individual is an assignment and how good it is.
type individual struct {
	// rows has the replicas by job and node.
	rows []uint8

	// fitness and use are to be large.
	fitness  float64
	use      float64
	front    int
	crowding float64
}

// decide breeds assignments for some generations and takes the fittest of those that no other one
// beats in both aims. Jobs that had the least service come first: repair takes replicas from the
// later ones.
func (g *genetic) decide(c *cluster, active []*job) ([][]int, error) {
	jobs := slices.Clone(active)
	slices.SortStableFunc(jobs, func(a, b *job) int {
		return cmp.Or(cmp.Compare(a.service, b.service), cmp.Compare(a.Arrival, b.Arrival))
	})
	g.prepare(c, jobs)

	var people []*individual
	for _, rows := range g.start(jobs) {
		people = append(people, g.born(rows))
	}
	people = g.survive(people)
	for range g.generations - 1 {
		people = g.survive(append(people, g.offspring(people)...))
	}

	g.front, g.jobs = nil, jobs
	best := people[0]
	for _, p := range people {
		if p.front == 0 {
			g.front = append(g.front, p.rows)
			if p.fitness > best.fitness {
				best = p
			}
		}
	}
	allocs := make([][]int, len(active))
	for i, j := range jobs {
		at := slices.Index(active, j)
		for n, r := range g.row(best.rows, i) {
			for range r {
				allocs[at] = append(allocs[at], n)
			}
		}
	}
	return allocs, nil
}

func (g *genetic) row(rows []uint8, i int) []uint8 { return rows[i*g.nodes : (i+1)*g.nodes] }

// prepare sets what stays the same in a decision.
func (g *genetic) prepare(c *cluster, jobs []*job) {
	g.nodes, g.slots = c.nodes, c.slots
	g.base = make([]uint8, len(jobs)*g.nodes)
	g.most, g.factor, g.speed = nil, nil, nil
	fair := divideUp(c.nodes*c.slots, len(jobs))
	for i, j := range jobs {
		for _, n := range j.alloc {
			g.row(g.base, i)[n]++
		}
		// Twice as many as it has been profiled with.
		m := j.profile.(*measured)
		g.most = append(g.most, min(max(2*m.most, 1), j.mostReplicas(c.nodes*c.slots)))
		// The published simulator counts 30 seconds for a restart.
		age := float64(c.now - j.Arrival)
		g.factor = append(g.factor, max(age-30*float64(max(j.restarts, 0)), 0)/(age+30))
		g.speed = append(g.speed, speedup(m, fair, c.nodes*c.slots))
	}
}

// speedup is a job's goodput in units of that with its fair share on one node.
func speedup(m *measured, fair, total int) func(nodes, replicas int) float64 {
	if m.Model == nil {
		return func(_, replicas int) float64 { return float64(replicas) / float64(fair) }
	}
	base := m.goodput(1, min(fair, m.limits.MaxBatch/m.limits.MinLocal))
	table := make([]float64, 2*(total+1))
	for i := range table {
		table[i] = -1
	}
	return func(nodes, replicas int) float64 {
		if replicas == 0 {
			return 0
		}
		at := 2*replicas + min(nodes-1, 1)
		if table[at] < 0 {
			table[at] = m.goodput(nodes, replicas) / base
		}
		return table[at]
	}
}

// start returns the first population: the front of the decision before, where new jobs have
// nothing; at first what there is.
func (g *genetic) start(jobs []*job) [][]uint8 {
	if g.front == nil {
		return [][]uint8{g.repair(slices.Clone(g.base))}
	}
	var out [][]uint8
	for _, before := range g.front {
		rows := make([]uint8, len(jobs)*g.nodes)
		for i, j := range jobs {
			if at := slices.Index(g.jobs, j); at >= 0 {
				copy(g.row(rows, i), g.row(before, at))
			}
		}
		out = append(out, g.repair(rows))
	}
	return out
}

// born evaluates an assignment.
func (g *genetic) born(rows []uint8) *individual {
	p := &individual{rows: rows}
	jobs := len(g.most)
	var active [64]bool
	use := 0.0
	for i := range jobs {
		row := g.row(rows, i)
		replicas, nodes := 0, 0
		for n, r := range row {
			if r > 0 {
				replicas += int(r)
				nodes++
				active[n] = true
			}
		}
		s := g.speed[i](nodes, replicas)

		// The use is the speedup for each replica, times the share of the active slots.
		use += s
		s *= 1 / float64(g.slots)
		if !bytes.Equal(row, g.row(g.base, i)) {
			s *= g.factor[i]
		}
		p.fitness += 1 / (s + 1e-3)
	}
	p.fitness = float64(jobs) / p.fitness
	total := 0
	for n := range g.nodes {
		if active[n] {
			total += g.slots
		}
	}
	if total > 0 {
		p.use = use / float64(total)
	}
	return p
}

// dominates reports whether a is not worse than b in both objectives, and better in one.
func dominates(a, b *individual) bool {
	return a.fitness >= b.fitness && a.use >= b.use && (a.fitness > b.fitness || a.use > b.use)
}

// survive keeps as many as the population has: front by front of those that none of the rest
// dominates, and of the last front those in the least crowded places.
func (g *genetic) survive(people []*individual) []*individual {
	rest := slices.Clone(people)
	slices.SortStableFunc(rest, func(a, b *individual) int {
		return cmp.Or(cmp.Compare(b.fitness, a.fitness), cmp.Compare(b.use, a.use))
	})
	var kept []*individual
	for front := 0; len(rest) > 0 && len(kept) < population; front++ {
		// Sorted by the first objective, those are not dominated that beat all before them
		// in the second, or equal the last of the front.
		var now, later []*individual
		for _, p := range rest {
			if len(now) == 0 || p.use > now[len(now)-1].use || p.use == now[len(now)-1].use && p.fitness == now[len(now)-1].fitness {
				p.front = front
				now = append(now, p)
			} else {
				later = append(later, p)
			}
		}
		crowd(now)
		if left := population - len(kept); len(now) > left {
			slices.SortStableFunc(now, func(a, b *individual) int { return cmp.Compare(b.crowding, a.crowding) })
			now = now[:left]
		}
		kept = append(kept, now...)
		rest = later
	}
	return kept
}

// crowd sets the distance between each one's neighbours along a front.
func crowd(front []*individual) {
	last := len(front) - 1
	width, height := front[0].fitness-front[last].fitness, front[last].use-front[0].use
	for i, p := range front {
		if i == 0 || i == last {
			p.crowding = math.Inf(1)
			continue
		}
		p.crowding = 0
		if width > 0 {
			p.crowding += (front[i-1].fitness - front[i+1].fitness) / width
		}
		if height > 0 {
			p.crowding += (front[i+1].use - front[i-1].use) / height
		}
	}
}

package main

import (
	"bytes"
	"hash/maphash"
	"math"
	"slices"
)

// offspring makes as many new individuals as the population has, none like another.
func (g *genetic) offspring(people []*individual) []*individual {
	known := map[uint64][][]uint8{}
	isNew := func(rows []uint8) bool {
		h := maphash.Bytes(g.seed, rows)
		for _, k := range known[h] {
			if bytes.Equal(k, rows) {
				return false
			}
		}
		known[h] = append(known[h], rows)
		return true
	}
	for _, p := range people {
		isNew(p.rows)
	}
	var out []*individual
	for range 100 * population / 2 {
		a, b := g.tournament(people), g.tournament(people)
		for _, rows := range g.cross(a.rows, b.rows) {
			if rows = g.repair(g.mutate(rows)); len(out) < population && isNew(rows) {
				out = append(out, g.born(rows))
			}
		}
		if len(out) == population {
			break
		}
	}
	return out
}

// tournament draws two and returns the better one: the one that dominates, else the one in the less
// crowded place.
func (g *genetic) tournament(people []*individual) *individual {
	a, b := people[g.rng.IntN(len(people))], people[g.rng.IntN(len(people))]
	switch {
	case dominates(a, b):
		return a
	case dominates(b, a):
		return b
	case a.crowding > b.crowding || a.crowding == b.crowding && g.rng.IntN(2) == 0:
		return a
	}
	return b
}

// cross exchanges the rows of the jobs before a cut, nine times of ten.
func (g *genetic) cross(a, b []uint8) [2][]uint8 {
	x, y := slices.Clone(a), slices.Clone(b)
	if g.rng.Float64() < 0.9 {
		cut := g.rng.IntN(len(g.most)) * g.nodes
		copy(x[:cut], b[:cut])
		copy(y[:cut], a[:cut])
	}
	return [2][]uint8{x, y}
}

// mutate resets a tenth of the jobs to what they have, removes a tenth of the replicas of another
// tenth, and lets on each node with a free slot about one job and one of those that are there grow.
func (g *genetic) mutate(rows []uint8) []uint8 {
	jobs := len(g.most)
	for i := range jobs {
		if g.rng.Float64() < 0.1 {
			copy(g.row(rows, i), g.row(g.base, i))
		}
		if g.rng.Float64() < 0.1 {
			for n, r := range g.row(rows, i) {
				if r > 0 && g.rng.Float64() < 0.1 {
					g.row(rows, i)[n] = 0
				}
			}
		}
	}
	for n := range g.nodes {
		used, here := 0, 0
		for i := n; i < len(rows); i += g.nodes {
			if rows[i] > 0 {
				used += int(rows[i])
				here++
			}
		}
		if used >= g.slots {
			continue
		}
		any, those := 1/float64(jobs), 1/float64(max(here, 1))
		next := g.skip(any)
		for i := range jobs {
			at := i*g.nodes + n
			hit := i == next
			if hit {
				next += 1 + g.skip(any)
			}
			if rows[at] > 0 && g.rng.Float64() < those {
				hit = true
			}
			if hit {
				rows[at] += uint8(g.rng.IntN(g.slots + 1 - int(rows[at])))
			}
		}
	}
	return rows
}

// skip is how many trials fail before one with probability p succeeds.
func (g *genetic) skip(p float64) int {
	if p >= 1 {
		return 0
	}
	return int(min(math.Log(1-g.rng.Float64())/math.Log1p(-p), 1e6))
}

// repair removes what is not possible: the later ones of jobs over several nodes on one node,
// replicas beyond a job's most on nodes in random order, and beyond a node's slots those of later
// jobs.
func (g *genetic) repair(rows []uint8) []uint8 {
	jobs := len(g.most)

	// Both are by node.
	var taken, used [64]uint8

	for i := range jobs {
		row := g.row(rows, i)
		replicas, nodes := 0, 0
		for _, r := range row {
			if r > 0 {
				replicas += int(r)
				nodes++
			}
		}
		if nodes > 1 {
			for n, r := range row {
				if r == 0 {
					continue
				}
				if taken[n] > 0 {
					row[n] = 0
					replicas -= int(r)
				}
				taken[n] = 1
			}
		}
		if left := g.most[i]; replicas > left {
			for _, n := range g.rng.Perm(g.nodes) {
				row[n] = uint8(min(int(row[n]), left))
				left -= int(row[n])
			}
		}
		for n, r := range row {
			if r > 0 {
				row[n] = min(r, uint8(g.slots)-used[n])
				used[n] += row[n]
			}
		}
	}
	return rows
}

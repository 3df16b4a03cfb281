// Package fanova measures how much of a function's variance its inputs explain, by functional ANOVA
// of a random forest (Hutter, Hoos and Leyton-Brown 2014).
//
// The forest is fitted to observations on the unit cube. Each tree is constant on boxes, so its
// mean over all inputs but one, the marginal, is a step function that is computed exactly, and so
// is the marginal's variance. An input's share is that variance over the tree's own, the mean of
// all trees. What the shares of single inputs leave to 1 is due to inputs together.
package fanova

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// Trees is how many trees a forest has.
const Trees = 64

// An Input says what values an input has on [0, 1].
type Input struct {
	// Count is how many values there are, each with an interval of its own length 1/Count; 0: a
	// real.
	Count int
}

// Shares are the inputs' shares of the variance, in [0, 1]. x[i] is an observation's inputs, y[i]
// its value. All are finite. The shares are 0 if the forest is constant. seed makes the forest.
func Shares(inputs []Input, x [][]float64, y []float64, seed uint64) []float64 {
	shares := make([]float64, len(inputs))
	if len(x) < 2 || len(inputs) == 0 {
		return shares
	}
	grown := 0
	for t := range Trees {
		rng := rand.New(rand.NewPCG(seed, uint64(t)))
		sample := make([]int, len(x))
		for i := range sample {
			sample[i] = rng.IntN(len(x))
		}
		g := grower{inputs: inputs, x: x, y: y, rng: rng}
		box := make([]interval, len(inputs))
		for j := range box {
			box[j] = interval{0, 1}
		}
		g.grow(sample, box)
		// A tree that is constant says nothing about shares, and is left out.
		total := g.variance()
		if total <= 0 {
			continue
		}
		grown++
		for j := range inputs {
			shares[j] += g.marginal(j) / total
		}
	}
	for j := range shares {
		shares[j] = min(shares[j]/float64(max(grown, 1)), 1)
	}
	return shares
}

// An interval is one side of a box.
type interval struct{ low, high float64 }

// A leaf is a box on which a tree is constant.
type leaf struct {
	box   []interval
	value float64
	// size is the volume of the leaf.
	size float64
}

// A grower makes one tree.
type grower struct {
	inputs []Input
	x      [][]float64
	y      []float64
	rng    *rand.Rand
	leaves []leaf
}

// fewest is how many observations a leaf has at least; a node of fewer than twice as many is not
// split.
const fewest = 2

// grow splits the observations of a box, which it keeps, until they are few or equal.
func (g *grower) grow(sample []int, box []interval) {
	input, at := g.split(sample, box)
	if input < 0 {
		sum, size := 0.0, 1.0
		for _, i := range sample {
			sum += g.y[i]
		}
		for _, b := range box {
			size *= b.high - b.low
		}
		g.leaves = append(g.leaves, leaf{box, sum / float64(len(sample)), size})
		return
	}
	below, above := slices.Clone(box), slices.Clone(box)
	below[input].high, above[input].low = at, at
	var left, right []int
	for _, i := range sample {
		if g.x[i][input] < at {
			left = append(left, i)
		} else {
			right = append(right, i)
		}
	}
	g.grow(left, below)
	g.grow(right, above)
}

// split finds where to cut a box so that the squared error falls most, among five sixths of the
// inputs. input is -1 if nothing helps.
func (g *grower) split(sample []int, box []interval) (input int, at float64) {
	input = -1
	if len(sample) < 2*fewest {
		return input, 0
	}
	mean := 0.0
	for _, i := range sample {
		mean += g.y[i] / float64(len(sample))
	}
	squares := 0.0
	for _, i := range sample {
		squares += (g.y[i] - mean) * (g.y[i] - mean)
	}
	best := 1e-12 * squares
	if squares <= 1e-300 {
		return input, 0
	}
	order := slices.Clone(sample)
	tried := g.rng.Perm(len(g.inputs))[:(5*len(g.inputs)+5)/6]
	for _, j := range tried {
		slices.SortFunc(order, func(a, b int) int { return cmp.Or(cmp.Compare(g.x[a][j], g.x[b][j]), cmp.Compare(a, b)) })
		// sum is that of y − mean over the points left of the cut.
		sum, n := 0.0, float64(len(order))
		for k := 1; k < len(order); k++ {
			sum += g.y[order[k-1]] - mean
			from, to := g.x[order[k-1]][j], g.x[order[k]][j]
			if from == to || k < fewest || len(order)-k < fewest {
				continue
			}
			cut := g.cut(j, from, to)
			if !(cut > from && cut <= to && cut > box[j].low && cut < box[j].high) {
				continue
			}
			if gain := sum * sum * n / (float64(k) * (n - float64(k))); gain > best {
				best, input, at = gain, j, cut
			}
		}
	}
	return input, at
}

// cut is where to separate two values: between them, and between the intervals of an input's
// values.
func (g *grower) cut(j int, from, to float64) float64 {
	middle := (from + to) / 2
	if n := float64(g.inputs[j].Count); n > 0 {
		return math.Round(middle*n) / n
	}
	return middle
}

// variance is that of the tree over the unit cube.
func (g *grower) variance() float64 {
	mean, square := 0.0, 0.0
	for _, l := range g.leaves {
		mean += l.size * l.value
		square += l.size * l.value * l.value
	}
	return square - mean*mean
}

// marginal is the variance of the tree's mean over all inputs but one.
func (g *grower) marginal(j int) float64 {
	type step struct{ at, change float64 }
	var steps []step
	for _, l := range g.leaves {
		width := l.box[j].high - l.box[j].low
		height := l.value * l.size / width
		steps = append(steps, step{l.box[j].low, height}, step{l.box[j].high, -height})
	}
	slices.SortFunc(steps, func(a, b step) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.change, b.change)) })
	mean, square, height := 0.0, 0.0, 0.0
	for k, s := range steps {
		if k > 0 {
			width := s.at - steps[k-1].at
			mean += width * height
			square += width * height * height
		}
		height += s.change
	}
	return max(square-mean*mean, 0)
}

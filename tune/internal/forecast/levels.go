package forecast

import (
	"cmp"
	"math"
	"slices"
)

const (
	// minFinals is the number of curves that must have ended; with fewer, the step that this
	// many curves have reached stands for the end.
	minFinals = 3
	// minPairs is the number of curves that lead from one step to a later one directly. With
	// fewer the way goes over a step between them that this many curves have reached: under
	// successive halving many go from rung to rung, and few from the first to the end.
	minPairs = 8
	// maxPairs bounds the curves of a regression.
	maxPairs = 300
)

// A knowledge is what a curve tells of its end, in pressed scores.
type knowledge struct {
	// told is false if nothing is known.
	told bool
	// mean is the end that is expected of a curve like this among those that reached its step.
	mean float64
	// likelihood is what the curve's values alone tell, beside its parameters: its deviation is
	// 0 if the end is known.
	likelihood Normal
	// weight is the part of the variance that the parameters leave open which the values
	// explain.
	weight float64
}

// levels has the regressions from steps to the end.
type levels struct {
	curves []Curve
	sums   [][]float64
	// horizon is the step that stands for the end, if few have ended; else 0.
	horizon int
	ended   int
	// lasts are the newest steps of all curves, the largest first.
	lasts []int
	final press
	// population is what ends are like.
	population Normal
	// parameters is the regression of ends on the parameters alone; nil before its first use.
	parameters *line
	known      map[int]*level
}

// A level is the way from a step to the end, for curves that have reached it.
type level struct {
	step  int
	scale press
	line  *line
	// next is the level that the line leads to; nil: it leads to the end.
	next   *level
	usable bool
}

// newLevels looks for what stands for the end: with few curves that ended it is the newest step
// that some have reached.
func newLevels(curves []Curve) *levels {
	l := &levels{curves: curves, known: make(map[int]*level)}
	for i := range curves {
		c := &curves[i]
		l.lasts = append(l.lasts, c.Last())
		// The worst possible score of a diverged trial is no example of an end.
		if c.Ended && !math.IsInf(c.Final, -1) {
			l.ended++
		}
		l.sums = append(l.sums, sums(c))
	}
	slices.SortFunc(l.lasts, func(a, b int) int { return cmp.Compare(b, a) })
	if l.ended < minFinals {
		l.horizon = 1
		if n := min(minFinals+1, len(l.lasts)); n > 0 {
			l.horizon = max(l.lasts[n-1], 1)
		}
	}
	var finals []float64
	for i := range curves {
		if y, ok := l.end(i); ok {
			finals = append(finals, y)
		}
	}
	l.final = newPress(finals)
	for i := range finals {
		finals[i] = l.final.press(finals[i])
	}
	if len(finals) > 0 {
		l.population.Mean, l.population.Deviation = spread(finals)
	} else {
		l.population.Deviation = 1
	}
	return l
}

// end is the final score of a curve, or what stands for it.
func (l *levels) end(i int) (float64, bool) {
	c := &l.curves[i]
	switch {
	case l.horizon == 0:
		return c.Final, c.Ended
	case c.Ended && math.IsInf(c.Final, -1):
		return c.Final, true
	case c.Last() >= l.horizon:
		return l.score(i, l.horizon), true
	}
	return 0, false
}

// all is what each curve tells of its end.
func (l *levels) all() []knowledge {
	out := make([]knowledge, len(l.curves))
	for i := range out {
		out[i] = l.of(&l.curves[i])
	}
	return out
}

// of is what a curve tells of its end. Its values and its parameters tell together what the
// regression over both says; what the parameters alone say is taken out again, since both are
// normal: precisions add up.
func (l *levels) of(c *Curve) knowledge {
	var s []float64
	if c.Ended && l.horizon == 0 || c.Ended && math.IsInf(c.Final, -1) {
		y := l.final.press(c.Final)
		return knowledge{true, y, Normal{Mean: y}, 1}
	}
	if s = sums(c); l.horizon > 0 && c.Last() >= l.horizon {
		y := l.final.press(window(c, s, 0.8*float64(l.horizon), float64(l.horizon)))
		return knowledge{true, y, Normal{Mean: y}, 1}
	}
	if len(c.Steps) == 0 {
		return knowledge{}
	}
	v := l.at(c.Last())
	if !v.usable {
		return knowledge{}
	}
	n := v.predict(c, s)
	prior := l.alone(c.X)
	a, b := 1/(n.Deviation*n.Deviation), 1/(prior.Deviation*prior.Deviation)
	if a-b < 0.02*b {
		return knowledge{told: false, mean: n.Mean}
	}
	// What the parameters alone let expect is not the values' to tell: it is divided out. The
	// process tells it, once.
	return knowledge{true, n.Mean, Normal{(a*n.Mean - b*prior.Mean) / (a - b), math.Sqrt(1 / (a - b))}, 1 - b/a}
}

// at is the level of a step. It is made at its first use, and stays.
func (l *levels) at(step int) *level {
	if v, ok := l.known[step]; ok {
		return v
	}
	v := &level{step: step}
	l.known[step] = v
	reached, scores, pairs := l.reached(step)
	if len(reached) < 2 {
		return v
	}
	v.scale = newPress(scores)
	v.next = l.between(step, pairs)
	var rows [][]float64
	var ys []float64
	for k, i := range reached {
		if y, ok := l.ahead(v, i); ok {
			rows, ys = append(rows, v.features(&l.curves[i], l.sums[i], scores[k])), append(ys, y)
		}
	}
	if len(rows) < 2 {
		return v
	}
	v.line = newLine(newest(rows), newest(ys))
	v.usable = true
	return v
}

// reached are the curves that have a score at a step, with their scores. pairs is how many of them
// have an end, too.
func (l *levels) reached(step int) (curves []int, scores []float64, pairs int) {
	for i := range l.curves {
		if l.curves[i].Last() < step || len(l.curves[i].Steps) == 0 {
			continue
		}
		y := l.score(i, step)

		// A curve that began at a later step has none.
		if math.IsNaN(y) {
			continue
		}
		curves, scores = append(curves, i), append(scores, y)
		if _, ok := l.end(i); ok {
			pairs++
		}
	}
	return curves, scores, pairs
}

// score is that of a curve at a step: the mean over the last fifth of the way there.
func (l *levels) score(i, step int) float64 {
	return window(&l.curves[i], l.sums[i], 0.8*float64(step), float64(step))
}

// between is the level that the way from a step to the end goes over; nil: it goes there directly,
// since enough pairs of a score at the step and an end are known, or no step between them is.
func (l *levels) between(step, pairs int) *level {
	if pairs >= minPairs || len(l.lasts) < minPairs {
		return nil
	}
	middle := l.lasts[minPairs-1]
	if middle <= step || l.horizon != 0 && middle >= l.horizon {
		return nil
	}
	if next := l.at(middle); next.usable {
		return next
	}
	return nil
}

// ahead is where a curve of a level arrived: its pressed score at the next level, or at the end. A
// curve that has a score at the level has one at each later step that it has reached.
func (l *levels) ahead(v *level, i int) (y float64, ok bool) {
	if v.next == nil {
		if y, ok = l.end(i); ok {
			y = l.final.press(y)
		}
		return y, ok
	}
	if l.curves[i].Last() < v.next.step {
		return 0, false
	}
	return v.next.scale.press(l.score(i, v.next.step)), true
}

// newest are the last maxPairs of a list.
func newest[T any](all []T) []T { return all[max(len(all)-maxPairs, 0):] }

// alone is what the parameters alone let expect, by a regression over the curves that ended.
func (l *levels) alone(x []float64) Normal {
	// The two zeros stand where a level has a curve's value and its gain.
	without := func(x []float64) []float64 { return append([]float64{0, 0}, x...) }
	if l.parameters == nil {
		var rows [][]float64
		var ys []float64
		for i := range l.curves {
			if y, ok := l.end(i); ok {
				rows, ys = append(rows, without(l.curves[i].X)), append(ys, l.final.press(y))
			}
		}
		l.parameters = newLine(newest(rows), newest(ys))
	}
	return l.parameters.predict(without(x))
}

// features of a curve at a step: its newest values, what they are above those some time before, and
// the parameters, by which some curves start slowly and end well.
func (v *level) features(c *Curve, s []float64, here float64) []float64 {
	step := float64(v.step)
	y := v.scale.press(here)
	gain := 0.0
	if before := window(c, s, 0.3*step, 0.6*step); !math.IsNaN(before) {
		gain = y - v.scale.press(before)
	}
	return append([]float64{y, gain}, c.X...)
}

// predict is the end that the level's line expects of a curve.
func (v *level) predict(c *Curve, s []float64) Normal {
	here := window(c, s, 0.8*float64(v.step), float64(v.step))
	return v.carry(v.line.predict(v.features(c, s, here)), c.X)
}

// carry takes what is known of the next level to the end.
func (v *level) carry(n Normal, x []float64) Normal {
	if v.next == nil {
		return n
	}
	line := v.next.line
	out := line.predict(append([]float64{n.Mean, line.mean[1]}, x...))
	return v.next.carry(Normal{out.Mean, math.Hypot(out.Deviation, line.slope()*n.Deviation)}, x)
}

// sums are the sums of the first scores.
func sums(c *Curve) []float64 {
	s := make([]float64, len(c.Scores)+1)
	for i, y := range c.Scores {
		s[i+1] = s[i] + y
	}
	return s
}

// window is the mean of the scores at steps in (from, to]; of none, the newest one before, and NaN
// if there is none.
func window(c *Curve, s []float64, from, to float64) float64 {
	i := above(c.Steps, from)
	j := above(c.Steps, to)
	switch {
	case j > i:
		return (s[j] - s[i]) / float64(j-i)
	case j > 0:
		return c.Scores[j-1]
	}
	return math.NaN()
}

// above is the index of the first step above x.
func above(steps []int, x float64) int {
	i, _ := slices.BinarySearchFunc(steps, x, func(s int, x float64) int {
		if float64(s) <= x {
			return -1
		}
		return 1
	})
	return i
}

// A press squeezes scores that are much worse than the median logarithmically: how bad a bad trial
// was says little.
type press struct{ middle, unit, worst float64 }

// newPress takes its unit from the scores: what lies between the median and the best.
func newPress(scores []float64) press {
	var all []float64
	for _, y := range scores {
		if !math.IsInf(y, 0) && !math.IsNaN(y) {
			all = append(all, y)
		}
	}
	if len(all) == 0 {
		return press{}
	}
	slices.Sort(all)
	n := len(all)
	middle := all[(n-1)/2]
	return press{middle, all[n-1] - middle, all[0]}
}

// press squeezes a score, which stays as it is above the median.
func (p press) press(y float64) float64 {
	if math.IsInf(y, 0) || math.IsNaN(y) {
		y = p.worst
	}
	if over := p.middle - y; over > 0 && p.unit > 0 {
		return p.middle - p.unit*math.Log1p(over/p.unit)
	}
	return y
}

// release undoes press. Its bound keeps a wide prediction from becoming infinite.
func (p press) release(z float64) float64 {
	if over := p.middle - z; over > 0 && p.unit > 0 {
		return p.middle - p.unit*math.Expm1(min(over/p.unit, 100))
	}
	return z
}

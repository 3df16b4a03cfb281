package worker

import (
	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/kvstore"
)

// A runKind says what becomes of a run's gradients.
type runKind uint8

const (
	// accumulating: they are added to the step's sums, and the step goes on.
	accumulating runKind = iota
	// closing: the step's sums are added to them, they are pushed, and the step ends.
	closing
)

// An accumulator has the sums of the gradients of a step's runs before its closing one, which adds
// them to its own.
//
// Invariant: gradients[u] counts only where added[u] is true, so that a step may begin without
// clearing the memory of the one before.
type accumulator struct {
	units []unit
	// byKey has the number of each parameter.
	byKey map[string]int
	// runs is the number of runs of the step so far, and amount what of them counts.
	runs   int
	amount amount
	// gradients are sums, by unit and parameter. They are made when a step first has two runs.
	gradients [][][]float32
	added     []bool
	// measure asks for the norms of runs and units, and norming tells whether they are taken in
	// this run.
	measure, norming bool
	// norms are those of the step so far, by unit and parameter.
	norms [][]kvstore.Micro
	// newest has, by parameter, the norms of what the last gradient that was pushed is the sum
	// of. The store reads it with the push.
	newest []kvstore.Micro
}

func newAccumulator(units []unit, keys []string) accumulator {
	a := accumulator{units: units, byKey: make(map[string]int, len(keys)), added: make([]bool, len(units)), newest: make([]kvstore.Micro, len(keys))}
	for i, key := range keys {
		a.byKey[key] = i
	}
	return a
}

// drop forgets the runs of the step.
func (a *accumulator) drop() {
	a.runs, a.amount = 0, amount{}
	clear(a.added)
	for _, list := range a.norms {
		clear(list)
	}
}

// prepare makes room for what the next run needs. A step of one run on one unit is one
// micro-gradient, whose norm the servers take.
func (a *accumulator) prepare(kind runKind) {
	alone := kind == closing && a.runs == 0
	a.norming = a.measure && (!alone || len(a.units) > 1)
	if a.norming && a.norms == nil {
		for range a.units {
			a.norms = append(a.norms, make([]kvstore.Micro, len(a.newest)))
		}
	}
	if alone || a.gradients != nil {
		return
	}
	a.gradients = make([][][]float32, len(a.units))
	for u := range a.units {
		for _, p := range a.units[u].program.Params() {
			a.gradients[u] = append(a.gradients[u], make([]float32, len(p.Gradient)))
		}
	}
}

// take deals with the final gradient of parameter i on unit u, of such a weight: an accumulating
// run adds it to the sums, a closing one the sums to it. Units call it at the same time, each for
// itself.
func (a *accumulator) take(u, i int, weight float64, kind runKind) {
	gradient := a.units[u].program.Params()[i].Gradient
	measure := a.norming && weight > 0
	var s f32.AddSquares
	// squares are those of this run's gradient, whichever of the two is added to the other.
	squares := &s.Added
	switch {
	case kind == closing && a.added[u]:
		squares = &s.Before
		addTo(gradient, a.gradients[u][i], measure, &s)
	case kind == accumulating && a.added[u] && weight > 0:
		addTo(a.gradients[u][i], gradient, measure, &s)
	default:
		if measure {
			squares.Add(gradient, f32.Precondition{})
		}
		if kind == accumulating && weight > 0 {
			copy(a.gradients[u][i], gradient)
		}
	}
	if measure {
		a.norms[u][i].Count++
		a.norms[u][i].Sqr += squares.Total() / weight
	}
}

// addTo adds x to dst, and takes the squares of both as they were if it is to measure.
func addTo(dst, x []float32, measure bool, s *f32.AddSquares) {
	if measure {
		f32.AddToMeasured(dst, x, f32.Precondition{}, s, true, false)
	} else {
		f32.AddTo(dst, x)
	}
}

// accumulated counts an accumulating run, after which so much of the step counts.
func (a *accumulator) accumulated(sum amount, on *devices) {
	a.runs++
	a.amount = sum
	for u := range a.units {
		a.added[u] = a.added[u] || on.countedOn(u).weight > 0
	}
}

// push keeps what the runs and units of the step say of parameter i together, for the push that
// follows.
func (a *accumulator) push(i int) {
	var m kvstore.Micro
	for u := range a.norms {
		m.Count += a.norms[u][i].Count
		m.Sqr += a.norms[u][i].Sqr
	}
	a.newest[i] = m
}

// micro is what the newest push of a key was the sum of.
func (a *accumulator) micro(key string) kvstore.Micro {
	if i, ok := a.byKey[key]; ok {
		return a.newest[i]
	}
	return kvstore.Micro{}
}

package worker

import (
	"math"
	"testing"

	"github.com/paragon-train/paragon/kvstore"
)

// fakeNorms has what the servers measured, by key.
type fakeNorms map[string]kvstore.Norms

func (f fakeNorms) Norms(key string) (kvstore.Norms, bool) {
	n, ok := f[key]
	return n, ok
}

func (f fakeNorms) MeasuresNorms() bool { return true }
func (f fakeNorms) NumWorkers() int     { return 2 }

// oneWorker is the same with one worker.
type oneWorker struct{ fakeNorms }

func (oneWorker) NumWorkers() int { return 1 }

// The norm of the gradient is that of all keys together or none: parts of two rounds make no norm.
// It is told once.
func TestANormOfPartsOfTwoRoundsIsNotTold(t *testing.T) {
	for name, c := range map[string]struct {
		norms fakeNorms
		want  float64
	}{
		"whole":           {fakeNorms{"a": {Count: 2, SqrMean: 9}, "b": {Count: 2, SqrMean: 16}}, 5},
		"a worker lost":   {fakeNorms{"a": {Count: 2, SqrMean: 9}, "b": {Count: 1, SqrMean: 16}}, math.NaN()},
		"one is missing":  {fakeNorms{"a": {Count: 2, SqrMean: 9}}, math.NaN()},
		"the guard chose": {fakeNorms{"a": {Count: 2, SqrMean: 9}, "b": {Count: 2, SqrMean: 16, Biased: true}}, math.NaN()},
	} {
		n := newGradientNorm([]string{"a", "b"}, true)
		n.read(c.norms)
		if got := n.tell(); !math.IsNaN(got) {
			t.Errorf("%s: the norm of a step that was not measured is %v, want NaN", name, got)
		}
		if alone := (oneWorker{c.norms}); !n.due(normEvery, c.norms) || n.due(normEvery+1, c.norms) || n.due(normEvery, alone) {
			t.Errorf("%s: want one step in %d measured, with two workers", name, normEvery)
		}
		n.phase = measured
		n.read(c.norms)
		if got := n.tell(); got != c.want && !(math.IsNaN(got) && math.IsNaN(c.want)) {
			t.Errorf("%s: the norm is %v, want %v", name, got, c.want)
		}
		if got := n.tell(); !math.IsNaN(got) {
			t.Errorf("%s: it is told again: %v", name, got)
		}
	}
}

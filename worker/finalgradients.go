package worker

import "sync"

// finalGradients counts on how many units each gradient of a run is final, and so tells when a
// parameter's gradient is whole. Hooks of all units call it at the same time.
type finalGradients struct {
	mu    sync.Mutex
	units int
	// on has, by parameter, the number of units on which its gradient is final.
	on    []int
	phase runPhase
}

// A runPhase is how far a run has come.
type runPhase uint8

const (
	// computing: no gradient is whole yet, so the values of the step before may be read.
	computing runPhase = iota
	// delivering: the first gradient is whole, so the step's weight is set.
	delivering
)

func newFinalGradients(units, params int) finalGradients {
	return finalGradients{units: units, on: make([]int, params)}
}

// begin begins a run.
func (f *finalGradients) begin() {
	f.phase = computing
	clear(f.on)
}

// add counts one more unit for parameter i, and reports whether that was the last one. The caller
// holds mu.
func (f *finalGradients) add(i int) (whole bool) {
	f.on[i]++
	return f.on[i] >= f.units
}

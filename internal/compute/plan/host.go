package plan

import (
	"slices"

	"gorgonia.org/tensor"
)

// Host is the memory on the host's side of an executor: what a user reads and writes. Its owner
// makes it for one plan, in the plan's order, and keeps it for as long as the executor lives.
type Host struct {
	// Inputs has one for each of Plan.Inputs.
	Inputs []HostInput

	Params [][]float32
	Grads  [][]float32 // nil for a plan without gradients

	// States are by the name of each batch normalisation's state.
	States map[string]*State

	// Blocks are pieces of memory that live as long as the host does, each one allocation, and
	// that slices above may lie in. An executor may fix them in physical memory to copy from
	// and to them; what lies in none is copied twice.
	Blocks [][]float32
}

// LeaveOut takes out of the plan's Memory the parameters, gradients and inputs of its host that lie
// in memory of another host: they count there.
func (p *Plan) LeaveOut(host, other *Host) {
	theirs := make(map[*float32]bool)
	note := func(m []float32) {
		if len(m) > 0 {
			theirs[&m[0]] = true
		}
	}
	for _, m := range slices.Concat(other.Params, other.Grads) {
		note(m)
	}
	for _, in := range other.Inputs {
		if m, ok := in.Data.([]float32); ok {
			note(m)
		}
	}
	leave := func(from *int64, m []float32) {
		if len(m) > 0 && theirs[&m[0]] {
			*from -= 4 * int64(len(m))
		}
	}
	for _, m := range host.Params {
		leave(&p.Memory.Parameters, m)
	}
	for _, m := range host.Grads {
		leave(&p.Memory.Gradients, m)
	}
	for _, in := range host.Inputs {
		if m, ok := in.Data.([]float32); ok {
			leave(&p.Memory.Inputs, m)
		}
	}
}

// HostInput is the memory of one input.
type HostInput struct {
	// Data is a slice of the leaf's type: []float32, []int32, ...
	Data any

	Tensor *tensor.Dense // over Data
}

// State is what one batch normalisation remembers between steps: running mean and variance of each
// channel.
type State struct {
	Mean, Var []float32
}

// Hooks are called in a run, on the goroutine that runs. Each may be nil.
type Hooks struct {
	// Wait is called before the first op that reads parameter i, and returns when its value may
	// be read.
	Wait func(i int)
	// Ready is called when the gradient of parameter i is final, which stays until the next
	// run, and the parameter is not read any more in this one.
	Ready func(i int)
	// Backward is called once, when the backward pass begins. An executor that hands whole runs
	// to a device does not know when, and does not call it.
	Backward func()
}

package nn

import "github.com/paragon-train/paragon/internal/compute/plan"

// Memory is the memory of a program, in bytes.
type Memory struct {
	// Arena has temporaries and scratch, which share memory where their lifetimes do not
	// overlap.
	Arena int64
	// Unplaced is what the arena would be if nothing shared memory, and Live the most that is
	// alive at once: no arena can be smaller.
	Unplaced, Live int64

	Inputs     int64
	Parameters int64
	Gradients  int64
	Outputs    int64

	// A device with memory of its own also has Copies, parameters and statistics in the types
	// that its kernels read, Workspace, which libraries use within an operation, and Host,
	// memory of the host for copies.
	Copies    int64
	Workspace int64
	Host      int64
}

// Total is the sum without Host.
func (m Memory) Total() int64 { return plan.Memory(m).Total() }

func (m Memory) String() string { return plan.Memory(m).String() }

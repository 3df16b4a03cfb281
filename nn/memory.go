package nn

import "github.com/paragon-train/paragon/internal/compute/plan"

// Memory is what a program takes, in bytes.
type Memory struct {
	Arena      int64 // temporaries and scratch, placed over each other
	Unplaced   int64 // what the arena would be if nothing shared memory
	Live       int64 // the most that is alive at once: no arena can be smaller
	Inputs     int64
	Parameters int64
	Gradients  int64
	Outputs    int64

	// Copies and Workspace are what a device with memory of its own takes besides: parameters and statistics in the types that its
	// kernels read, and memory that libraries use within an operation. Host is what it keeps in the host's memory for copies.
	Copies    int64
	Workspace int64
	Host      int64
}

// Total is all of it but Host.
func (m Memory) Total() int64 { return plan.Memory(m).Total() }

func (m Memory) String() string { return plan.Memory(m).String() }

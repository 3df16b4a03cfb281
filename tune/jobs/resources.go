package jobs

import "time"

// Resources are what one trial needs. The zero value is one slot of this process.
type Resources struct {
	// Hosts times Slots are the workers of a distributed trial; zero is 1.
	Hosts, Slots int
	// CPUsPerSlot are the processors of one slot; zero is 1.
	CPUsPerSlot int
	// GPUs are those of one slot.
	GPUs int
	// Servers is how many servers hold the parameters; zero leaves it to the Runner.
	Servers int
	// StartTimeout is how long an attempt may take until all its parts run; zero
	// leaves it to the Runner.
	StartTimeout time.Duration
}

package worker

import "time"

// Times says where the time of steps went, as seen by the goroutine that calls Step; work hidden
// behind the compute of other layers does not show.
type Times struct {
	// Compute is the time of forward and backward passes.
	Compute time.Duration
	// Wait is the time spent waiting for new values: for the other workers, the servers and the
	// network.
	Wait time.Duration
	// Data is the time spent waiting for the next batch, and Save that of writing checkpoints
	// within an epoch. Fit fills both.
	Data, Save time.Duration
}

// Add adds u to t.
func (t *Times) Add(u Times) {
	t.Compute += u.Compute
	t.Wait += u.Wait
	t.Data += u.Data
	t.Save += u.Save
}

// since is what was added to before.
func (t Times) since(before Times) Times {
	return Times{Compute: t.Compute - before.Compute, Wait: t.Wait - before.Wait, Data: t.Data - before.Data, Save: t.Save - before.Save}
}

package op

// Mode tells the Do of stateful ops what to compute. All of a graph's ops point
// to one Mode, so one assignment switches the graph; change it only between
// runs. Compiled executors do not read it.
type Mode struct {
	// Inference false (the default) is training: batch normalisation uses the
	// batch's statistics and moves the running ones, dropout drops. True is
	// evaluation: running statistics, no dropout.
	Inference bool

	// Step counts training steps from 0; dropout draws a new mask for each. Who
	// runs the graph raises it.
	Step uint64

	// Stream sets replicas apart: workers with the same seed and step but
	// another Stream, usually their rank, drop other elements.
	Stream uint64
}

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

	// Batch is the number of examples that a batch has room for, and Examples how many of it
	// are there: the first ones. What lies in rows of the others is padding, which counts in no
	// loss and in no batch's statistics, and whose labels and ids nobody looks at. Batch 0: all
	// are there.
	Batch, Examples int
}

// Rows is how many of some rows belong to examples that are there. Rows that are no multiple of
// Batch are not those of examples: they are all there, as with a nil Mode.
func (m *Mode) Rows(rows int) int {
	if m == nil || m.Batch == 0 || rows%m.Batch != 0 || m.Examples >= m.Batch {
		return rows
	}
	return rows / m.Batch * m.Examples
}

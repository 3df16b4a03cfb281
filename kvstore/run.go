package kvstore

// A Run says which training a job belongs to. launch --restarts starts a job that failed again as a
// new job of the same run, so that it goes on from the checkpoints of this run, and of no other
// one. worker.Fit sees to that.
type Run struct {
	// ID is empty where launch did not start the job.
	ID string
	// Again says that launch has started the job again by itself. It is false as well where
	// PARAGON_RESUME=1 was set from the beginning.
	Again bool
}

// JobRun says which training the job belongs to; none within this process.
func (m *membership) JobRun() Run {
	if n, ok := m.node.(runMember); ok {
		id, again := n.Run()
		return Run{id, again}
	}
	return Run{}
}

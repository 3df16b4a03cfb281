package cuda

// A freshness says whether the device has the values of the parameters and running statistics that
// count, so that a run need not take them there.
type freshness struct {
	// held is true if the host's values stay as they are, or do not count.
	held bool

	// since is the schedule that took them to the device; nil: none did.
	since *schedule
}

// hold says whether the host's values stay as they are from now on.
func (f *freshness) hold(held bool) { f.held, f.since = held, nil }

// forget makes the next run take the values to the device.
func (f *freshness) forget() { f.since = nil }

// stale reports whether a run of s has to take the values to the device. What full took there has
// all of them; what another schedule took there has those that it reads.
func (f *freshness) stale(s, full *schedule) bool {
	return !f.held || f.since == nil || f.since != s && f.since != full
}

// took says that s has taken the values to the device.
func (f *freshness) took(s *schedule) {
	if f.since = nil; f.held {
		f.since = s
	}
}

// replaced says that new schedules stand for old ones.
func (f *freshness) replaced(old, now schedules) {
	switch {
	case f.since == nil:
	case f.since == old.full:
		f.since = now.full
	case f.since == old.forward:
		f.since = now.forward
	}
}

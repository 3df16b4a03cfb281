package worker

// TakeTimes returns where the time of the steps since the last call went.
func (t *Trainer) TakeTimes() Times {
	times := t.times
	t.times = Times{}
	return times
}

// TakeCaught returns how many of this worker's contributions the servers' guard has refused or
// clipped since the last call, as far as the values that were pulled have told.
func (t *Trainer) TakeCaught() uint64 { return t.caught.take(t.keys, t.cfg.Store) }

// TakeStaleness returns what was counted since the last call; nil with a synchronous store, where
// no value is old.
func (t *Trainer) TakeStaleness() *Staleness {
	if !t.async() {
		return nil
	}
	return t.ages.take()
}

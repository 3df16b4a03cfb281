package worker

// A caughtCount follows how many of this worker's contributions the servers' guard has caught. The
// store counts from the beginning of the job.
type caughtCount struct {
	// told is how many contributions take has returned so far.
	told uint64
}

// take returns how many contributions of some keys were caught since the last call. A count may go
// down, where the server that had it was lost: then nothing is new.
func (c *caughtCount) take(keys []string, store interface{ Caught(key string) uint64 }) uint64 {
	var all uint64
	for _, key := range keys {
		all += store.Caught(key)
	}
	fresh := all - min(c.told, all)
	c.told = all
	return fresh
}

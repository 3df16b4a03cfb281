package shard

// SetGuard makes all shards judge contributions from now on.
func SetGuard(shards []*Shard, g Guard) {
	for _, s := range shards {
		s.mu.Lock()
		s.guard = newGuard(g)
		s.guarded.Store(true)
		s.mu.Unlock()
	}
}

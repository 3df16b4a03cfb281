package shardserver

// An awaited is a shard that does not exist yet, and for which requests wait.
type awaited struct {
	// created is closed when workers may use the shard, or when another server has it.
	created chan struct{}
	waiters int
}

// An awaitTable has the shards that requests wait for. Each stays in it until it is created, or
// until the last request has stopped waiting: requests for shards that never come leave nothing.
type awaitTable map[shardID]*awaited

// begin begins a wait for a shard, which is to call end.
func (t awaitTable) begin(at shardID) *awaited {
	a := t[at]
	if a == nil {
		a = &awaited{created: make(chan struct{})}
		t[at] = a
	}
	a.waiters++
	return a
}

// end ends one wait for a shard; the last one forgets it.
func (t awaitTable) end(at shardID, a *awaited) {
	if a.waiters--; a.waiters == 0 && t[at] == a {
		delete(t, at)
	}
}

// wake ends all waits for a shard.
func (t awaitTable) wake(at shardID) {
	if a := t[at]; a != nil {
		close(a.created)
		delete(t, at)
	}
}

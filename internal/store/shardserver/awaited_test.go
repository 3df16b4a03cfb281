package shardserver

import "testing"

func TestAnAwaitedShardIsForgottenByItsLastWaiter(t *testing.T) {
	table, at := awaitTable{}, shardID{key: 7}
	a := table.begin(at)
	if b := table.begin(at); a != b {
		t.Error("two waits for one shard: got two channels, want one")
	}
	table.end(at, a)
	if len(table) != 1 {
		t.Error("the shard was forgotten while a request waits for it")
	}
	table.end(at, a)
	if len(table) != 0 {
		t.Error("the shard is kept, though no request waits for it")
	}
}

func TestWakingEndsAllWaitsForOneShard(t *testing.T) {
	table, at, other := awaitTable{}, shardID{key: 7}, shardID{key: 7, index: 1}
	a, b := table.begin(at), table.begin(other)
	table.wake(at)
	select {
	case <-a.created:
	default:
		t.Error("the wait goes on")
	}
	select {
	case <-b.created:
		t.Error("the wait for another shard ended")
	default:
	}

	// A request that begins to wait anew does not lose its place by the end of an older wait.
	anew := table.begin(at)
	table.end(at, a)
	if table[at] != anew {
		t.Error("the end of a wait that is over took away a new one")
	}
}

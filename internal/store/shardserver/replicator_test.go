package shardserver

import "testing"

// Where as many goroutines fill backups as may, further shards wait for one of them, in turn and
// each once. A goroutine that finds none is counted no more, so that another one may begin.
func TestFillsBeyondTheBoundWaitTheirTurn(t *testing.T) {
	k := newReplicator(t.Context())
	defer k.close()
	k.fillers = maxFillers
	waiting := make([]replicated, 3)
	for i := range waiting {
		waiting[i] = replicated{at: shardID{key: uint64(i)}, e: &entry{replica: &replicaState{}}}
		k.notifyFill(waiting[i])
		k.notifyFill(waiting[i])
	}
	for i := range waiting {
		if got, ok := k.nextFill(); !ok || got != waiting[i] {
			t.Errorf("got shard %v (%v), want %v", got.at, ok, waiting[i].at)
		}
	}
	if got, ok := k.nextFill(); ok || k.fillers != maxFillers-1 {
		t.Errorf("got shard %v (%v) and %d goroutines, want none and %d", got.at, ok, k.fillers, maxFillers-1)
	}
}

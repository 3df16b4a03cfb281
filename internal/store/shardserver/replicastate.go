package shardserver

import "sync"

// A replicaState is the state of a shard's replication, in a job with backups: of a primary,
// what its backup has; of a backup, whose copy it is.
//
// The scheduler may change the assignment at any time, while requests to the backup are under
// way. So whoever acts by an assignment takes backupNumber with it, and looks whether it is
// still the same before it changes anything here.
type replicaState struct {
	// mu guards the rest. It may be taken while a shard's own is held, by notify. serveReplicate
	// takes the two the other way around, which is safe: it has the shard of a backup, which notifies
	// no one, and a shard that was a primary here never becomes a backup without being filled anew.
	mu         sync.Mutex
	assignment assignment
	// wakes is the number of calls of notify since the replicator last looked. Above 0 a
	// goroutine works for the shard.
	wakes int
	// fillNumber is the number of the newest fill.
	fillNumber uint64
	// backupNumber goes up with each change of the backup; a new placement may keep the backup.
	backupNumber uint64
	// refused says that the backup has refused the shard.
	refused bool
	// reportedFilled says that the scheduler knows that the backup has the whole state.
	reportedFilled bool
	// synced is alwaysSynced while the backup has the state, or there is no backup. Nil: the
	// backup lacks some of the state, and no one waits for it.
	synced chan struct{}
	// usable says that workers may use the shard: it was synced once.
	usable bool
	// For a backup: who has filled it. from is, of a backup, the node of the primary that has
	// filled it, and filled the fill's number.
	from   uint64
	filled uint64
}

// alwaysSynced is closed.
var alwaysSynced = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// clearSynced records that the backup lacks some of the state. The caller holds mu. Those who
// wait already keep their channel, and go on waiting.
func (st *replicaState) clearSynced() {
	if st.synced == alwaysSynced {
		st.synced = nil
	}
}

// awaitSynced returns a channel that is closed when the backup has the state, and whether it has it
// now.
func (st *replicaState) awaitSynced() (synced chan struct{}, now bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.synced == nil {
		st.synced = make(chan struct{})
	}
	return st.synced, st.synced == alwaysSynced
}

// stateReplaced records that the shard's state is about to be replaced.
func (st *replicaState) stateReplaced() {
	if st == nil {
		return
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.assignment.role == primary && st.assignment.other != 0 {
		st.clearSynced()
	}
}

// wake counts a call of notify, and reports whether no goroutine works for the shard yet. The
// goroutine that does looks at the count before and after its work, so that no call is lost between
// its last look and its end.
func (st *replicaState) wake() (first bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.wakes++
	return st.wakes == 1
}

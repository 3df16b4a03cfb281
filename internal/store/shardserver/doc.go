// Package shardserver answers the requests of a job's workers with the shards that it holds
// (package internal/store/shard has the rules of a round). Package server runs it in a process of
// its own; in-process stores run it in theirs.
//
// A Server holds the shards and is a transport.Handler: it routes each request to the shard that it
// names, and waits if the answer must wait. A waiting request holds a goroutine and no lock;
// different shards work concurrently and never wait for each other. Package servernode joins a job
// with a Server and serves until the job ends. A Local is a Server for workers of its own process,
// without frames.
//
// # Memory
//
// A payload is read straight into pooled memory, after its length was checked against the shard's
// size and the sender's quota: for each worker and shard at most two contributions are held, and at
// most maxPushes payloads and maxPulls answers are under way. Values are sent from the shard's own
// memory. In steady state a round allocates nothing.
//
// # Membership
//
// Requests carry the sender's generation. A generation older than the server's is refused as stale;
// with a newer one the request waits until the server learns of it. When workers leave or are
// lost, the open rounds of all shards close over those that stay and over what the others had
// contributed in full: a contribution that a shard has accepted stays in its round. Those who
// stay get the answers that they already wait for, when the round closes.
//
// # Backups
//
// In a job with backups each shard has a primary and, on another server, a backup. The scheduler
// decides which servers these are and numbers its decisions, the placements. A round that has closed
// goes to the backup as a Record, and its value is shown to workers only once the backup has it: so
// no worker has seen a value that the loss of one server could take back. A new backup gets the
// whole state by a fill, during which no round of the shard closes. A primary acts alone on its
// shard, and a backup does nothing but what its primary tells it; a backup that knows a newer
// placement refuses a former primary.
//
// # Repeats
//
// A connection may break between a request and its answer, so every request may come twice. A
// contribution that has counted is acknowledged again and not added; a shard that exists is not made
// again; an optimizer that is set already is no conflict; a round or a fill that the backup has is
// skipped. No request is remembered for that: sequence numbers of workers, numbers of rounds and of
// fills are.
//
// # Locks
//
// The Server's mu comes before a shard's, and requests of workers never hold it while they use a
// shard. What a shard calls back under its own mutex (a round has closed, memory has grown, the
// guard has refused something) takes only the locks of the replicator, of a shard's replicaState and
// of the guard's log, under which no shard is called (replicaState has the one exception). The mutex
// of a quota stands alone, since it is taken by goroutines that read connections.
//
// # Waiting
//
// Every wait ends with its answer, at the sender's deadline, with the connection or with the job. A
// wait that times out says whom it waited for: rank, host, how many rounds that worker has
// contributed to and when it was last heard from.
package shardserver

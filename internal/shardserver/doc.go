// Package shardserver answers the requests of a job's workers with the shards that it holds (package internal/shard has the rules of a
// round): what package server runs, and what the stores within a process have in place of servers.
//
// A Server is the state and the transport.Handler: it routes each request to the shard it names and waits where an answer must wait. A
// request that waits holds a goroutine and no lock; different shards work at the same time and never wait for each other. Run takes
// part in a job with one until the job ends. A Local is one for workers of its own process: the same handler, without frames.
//
// # Memory
//
// A payload is read straight into pooled memory of its own length, after the length was checked against the shard's size and
// the sender's share was checked: of one worker and shard at most two contributions are held, and at most maxPushes payloads
// and maxPulls answers are under way. Values are sent from the shard's own memory. In steady state nothing is allocated for a round.
//
// # Membership
//
// Requests carry the sender's generation. An older one than the server's is refused as stale; for a newer one the server
// waits until it has heard of it itself. When workers leave, the open rounds of all shards close over those that stay.
//
// # Waiting
//
// Every wait ends with its answer, with the sender's time, with the connection or with the job. A wait that runs out says
// whom it waited for: rank, host, how far that worker has got and when it was last heard from.
package shardserver

// Package scheduler is the scheduler of a job: it forms the membership, keeps it, places keys on servers, and lets nodes
// wait for each other.
//
// The Core decides. It is a pure function of its past: an Event goes in, with the time at which it happened, and answers and
// notes come out. It has no clock, no socket and no disk, so that the same events always give the same answers and a journal
// of events is a journal of the job.
//
// A job passes through four phases. While it is forming, nodes register; the core says who is missing. When all are there,
// ranks are fixed (the wanted ones first), the generation becomes 1 and the job runs. It finishes when the last worker left
// in order. It fails when a node says that it failed, when a node was not heard of for its lease, or when nodes are missing
// after the start timeout. Whoever waits for something then hears the reason.
//
// While it runs the membership may change, as cluster.Elastic says. Whatever calls for that (a joining worker is ready, a host
// is to be removed, a worker that was told to end asks to leave, a worker was lost) makes one numbered change pending, which later causes join. It is committed when every
// worker that counts has arrived at the boundary and every server has told what it counted of lost workers: those who stay
// keep their order and get the ranks from 0 on, new ones come last, and what is left of the epoch is divided anew. A loss
// makes a new generation at once besides, without the lost worker, since others stand in rounds that need it. Hosts of
// workers have a status and numbered events, which the launcher follows; Control has what people and tools may ask.
//
// All that the core decides is in the Records of its Output, and Restore makes a Core of them. Times, heartbeats and waits are
// not kept: leases begin anew, and who waited asks again. The same events give the same records.
//
// Run is the shell around the core: it listens, gives the core its events, wakes it when a deadline is due, writes the
// records to a State (a file, or etcd), and then sends the answers, some of which come long after their requests. A
// scheduler that was killed is started again on its State, at the same address, and nobody notices but by the wait.
package scheduler

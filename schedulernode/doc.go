// Package schedulernode is the scheduler of a job: it forms the membership, keeps it, places keys on servers, and lets nodes
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
// Run is the shell around the core: it listens, gives the core its events, wakes it when a deadline is due, and sends the
// answers, some of which come long after their requests.
package schedulernode

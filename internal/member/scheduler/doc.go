// Package scheduler is the scheduler of a job: it forms the membership and changes it, places keys
// on servers, and lets nodes wait for each other.
//
// The Core decides. It is a pure function: an Event goes in with the time at which it happened, and
// answers, notes and records come out. It has no clock, socket or disk, so the same events always
// give the same output, and a journal of records is a journal of the job.
//
// A job has four phases. While it is forming, nodes register, and the core says which are missing.
// When all have registered, ranks are assigned (wanted ones first), the generation becomes 1 and
// the job runs. It finishes when the last worker has left without an error. It fails when a node
// reports a failure, when a node's lease expires and the job cannot go on without it, or when nodes
// are missing after the start timeout. All waiting requests are then answered with the reason.
//
// While the job runs its membership may change, as cluster.Elastic says. A joining worker that is
// ready, a host to be removed, a worker that asks to leave and a lost worker each make one numbered
// change pending; later causes join it. The change is committed when every worker that counts has
// arrived at the same step and every server has reported what it counted of lost workers. The
// remaining workers keep their order and get the ranks from 0 on, new ones come last, and what is
// left of the epoch is divided over them. A loss also makes a new generation at once, without the
// lost worker, since other workers wait for it in rounds. Hosts of workers have a status and
// numbered events, which the launcher follows; internal/member/control has what people and tools
// may ask.
//
// All decisions of the core are in the Records of its Output, and Restore makes a Core of them.
// Times, heartbeats and waits are not in them: leases begin again, and the nodes repeat their
// requests. The same events give the same records.
//
// Where to look:
//
//	core.go, event.go                 the core: its state, what goes in, what comes out
//	member.go, lease.go               nodes that register, leave and fall silent
//	change.go, join.go, leave.go      the next membership
//	division.go                       what is left of an epoch, divided over the new members
//	hosts.go, servers.go, control.go  hosts and servers that come and go, requests of launcher and people
//	plan.go, placement.go, backups.go, offline.go  which server holds which shard
//	waits.go                          barriers and signals
//	journal.go, state.go, bolt.go, etcd.go, forget.go  what outlives a scheduler, and what is dropped from it
//	run.go, shell.go                  the shell
//	script_test.go, testdata          scripts of the core
//
// Run is the shell around the core: it listens, passes events to the core, wakes it at its
// deadlines, writes the records to a State (a file, or etcd), and then sends the answers, some of
// which come long after their requests. A scheduler that was killed is started again on its State,
// at the same address; the nodes only notice a wait.
package scheduler

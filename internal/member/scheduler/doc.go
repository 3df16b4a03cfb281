// Package scheduler is the scheduler of a job: it forms the membership and changes it, places keys
// on servers, and lets nodes wait for each other.
//
// The Core decides. It is a pure function: an Event goes in with the time at which it happened, and
// answers, notes and records come out. It has no clock, socket or disk, so the same events always
// give the same output, and a journal of records is a journal of the job. Run is the shell around
// it: it listens, passes events to the core, wakes it at its deadlines, writes the records to a
// State (a file, or etcd), and then sends the answers, some of which come long after their
// requests. A scheduler that was killed is started again on its State, at the same address; the
// nodes only notice a wait.
//
// # The job
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
// lost worker, since other workers wait for it in rounds.
//
// The core alone decides which processes the job should have, and where. That is the wanted state:
// it has a revision, and is in the journal. The launcher watches it, starts and ends what differs
// from it, and reports what it observes; it decides nothing about the membership. Hosts of workers
// have a status and numbered events, which tell people what has happened. internal/member/control
// has what the launcher, people and tools may ask.
//
// # The machines
//
// The core is a sum of machines. Each is a type that owns its state: nobody else changes it, and no
// machine has a pointer to the core. What a machine needs of another one comes as an argument, what
// it decides goes out as a return value, and its effects go into the output that it is given. So a
// machine is tested by itself, with an output and a roster (machines_test.go), and the scripts of
// testdata run over the whole.
//
//	policy         which losses the job survives, who may leave: no state, only the settings
//	jobState       phase, generation, revision; why the job ended, and how it is being stopped
//	roster         the nodes, by ID, and those that are gone
//	leases         which silent nodes are lost, and which are waited for
//	changer        the pending change, what servers counted of lost workers, the division
//	hostTable      the hosts of workers
//	sites          where workers and servers may run, and how many on each host
//	fleet          the processes that should be, and how the launcher saw each last
//	departingHosts hosts that are being taken away, and what becomes of what runs there
//	wish           the number of workers that rank 0 asks for
//	scaler         the number of workers that was asked for, and what is left to be done for it
//	scaleWaits     requests for such a number that wait for the launcher's first report
//	serverTable    ranks of servers, and servers that were asked for
//	shardPlacement which server has which shard and its backup; its planner decides
//	watches        the nodes' requests for the next membership
//	barriers       workers that wait for each other
//	signals        workers that wait for a word of another one
//	changeWaits    workers that wait for the pending change
//	eventLog       what happened to hosts and servers, and who waits to hear of it
//	meters         what the nodes measure
//	slowWatch      the worker that the others wait for
//	tracer         the trace that is being taken
//	adaptations    what rank 0 says of how it adapts
//
// The membership is the sum of those down to changeWaits, and has the procedures that need several
// of them: register, join, commit, lose, takeLeave and so on, each a list of steps. The Core adds the
// others. It hands an event to whom it concerns, and then does the same with every machine: asks
// for its next deadline, lets it act on those that are over, tells it that the sender of a request
// is gone, and takes its records.
//
// # What always holds
//
//   - The generation goes up if and only if other workers or servers count. The revision goes up
//     with all that a wire.Membership says, and the watches are answered with it.
//   - The IDs of nodes, and the numbers of changes, placements and events, go up and are never used
//     again, also by a scheduler that was started again.
//   - The ranks of the workers that count are dense after a commit. Between a loss and the commit
//     one is missing; its part of the division is still its.
//   - A request gets one answer. Those that wait get it from the machine that holds them, at their
//     deadline at the latest, or when the job ends.
//   - All that was answered is in the records of the same or an earlier Output, so that nothing is
//     taken back by a restart. Restore makes a Core of the records. Times, heartbeats and waits are
//     not in them: leases begin again, and the nodes repeat their requests. The key of a record
//     begins with the machine that it belongs to (journal.go).
//
// # A worker is lost
//
// The way of a loss through the runtime; files without a folder are of this package:
//
//	launch/internal/job                the worker's process has ended: the launcher's next report of what
//	                                   it observes has its end (control.Observed)
//	observed.go, judge.go              judge.ended: a member that ended is lost, unless it may leave
//	lease.go                           without that word, the lease of a silent node expires; soon, if its
//	                                   watch ended with its connection (leases.cut)
//	loss.go                            loseWorker: the node is lost, and the policy may fail the job for it
//	change.go                          workerLost: a change is pending, and a report of each server is due
//	job.go                             regenerate: the generation goes up at once; ranks and the division
//	                                   stay as they are
//	watches.go                         servers and workers get the new membership
//	servernode/run.go                  a server reads it, and the placement that belongs to it
//	shardserver/follow.go              SetMembership gives it to each shard
//	shard/setmembers.go, round.go      SetMembers: what the shard has accepted of the lost worker stays in
//	                                   its round, and rounds no longer wait for the rest
//	kvstore/internal/attempt           a push of the old generation is refused as stale, and sent again
//	worker/agreement.go, change.go     the workers agree after which step they make the change; there
//	                                   each calls Arrive and says what it has used
//	changecommit.go                    all have arrived: the servers are asked (Membership.LostToCount)
//	servernode/lossreport.go           each answers with wire.LostExamples
//	division.go                        usedByLost: what the lost worker used of its share; the rest of
//	                                   the epoch is divided
//	changecommit.go                    once those are ready that the policy wants in its place, the
//	                                   generation goes up again, ranks are dense, and the arrivals are
//	                                   answered: the workers go on
//
// The generation goes up twice: at once for the loss, so that nobody waits for the dead worker, with
// ranks that have a hole; and at the commit, when the epoch is divided anew and ranks are dense. Two
// or more losses before the commit are one change. A process in the place of the lost one is another
// matter: judge.joinAgain wants it after a pause, up to --rejoin times in a row, under each policy
// but fail. It joins as any worker does (below); only the policy wait holds the commit for it.
//
// Who is lost, the roster here decides; all others have copies. Which contributions count, each
// shard decides for itself. What was used, a worker that stays says of itself, and of a lost one the
// server that counted least.
//
// # launch ctl scale 3
//
// The way of a request for a number of workers:
//
//	launch/internal/command/ctl        scale.go: the request control.OpScale goes straight to the
//	                                   scheduler; with --wait its events are followed
//	control.go, scalewaits.go          Core.control: after a restart it waits for the launcher
//	scale.go                           membership.askScale, scaler.ask: may that be; is it under way already
//	scaleplan.go                       planNumber: which hosts have room (sites.go room); no room: a refusal
//	scale.go                           begin, goOn, grow: what can be started now is; who is to leave leaves
//	                                   once those count that come
//	fleet.go                           want: a new process is in the wanted state, with no rank yet
//	wanted.go                          wantedWatches.tell: the launcher's request is answered in the same step
//	launch/internal/job                follow.go, access.go: the launcher starts it with PARAGON_JOIN=1, and
//	                                   reports it; from here on a worker joins
//	changecommit.go, scaling.go        scaler.check at the commit: event Scaled
//	judge.go, scale.go                 if a start fails: startsMissing tries hosts with room; none has: event
//	                                   ScaleShort (scaling.go tooFew)
//
// # A worker joins
//
// The way of a worker that comes later, be it wanted, started again or started by hand:
//
//	cluster/join.go                    Join registers, with Joining set, and returns
//	register.go, join.go               register, join: MemberJoining, which does not count, until joinBy;
//	                                   it may read, and not push
//	worker/fitrun.go, change.go        it declares its keys and calls Ready of its store
//	join.go                            ready: MemberReady; admitReady makes a change pending, which is in
//	                                   the membership that all watch
//	worker/agreement.go, change.go     the workers agree after which step; each calls Arrive, no report
//	                                   of a server is due
//	changecommit.go                    commit: the newcomer counts and has the highest rank, the generation
//	                                   goes up, the rest of the epoch is divided over all
//	shard/setmembers.go, round.go      it has a slot in each shard's open round
//	kvstore, worker/change.go          Ready returns: it pulls the values, takes its share, and pushes
//	fleet.go                           takeRanks: its process has joined, and has a rank
//
// # Where to look
//
//	core.go, event.go, output.go       what goes in, what comes out, the loop over the machines
//	handle.go, control.go              who answers which request of nodes, and of people and launcher
//	membership.go                      the sum of the machines of the membership
//	register.go, join.go, leave.go, loss.go, changecommit.go, hostchanges.go,
//	serverchanges.go                   its procedures
//	wanted.go, observed.go             what the launcher watches, and what it reports
//	judge.go                           what the end of a process means for the job
//	views.go, status.go                what the core says of itself
//	journal.go, state.go, bolt.go, etcd.go
//	                                   what outlives a scheduler
//	run.go, shell.go, intake.go, journalwriter.go, launchernews.go
//	                                   the shell: its loop, requests, the journal, the launcher
//
// Every machine is in the file that is named for it: policy.go, job.go, roster.go and node.go,
// lease.go, change.go and division.go, hosts.go, sites.go, fleet.go, departinghosts.go, wish.go,
// scaling.go (what it does in scale.go, its planner in scaleplan.go), scalewaits.go, servers.go,
// shardplacement.go (its planner in shardplan.go and shardbackups.go), watches.go, waitlist.go,
// barriers.go, signals.go, changewaits.go, eventlog.go, telemetry.go, slow.go, trace.go,
// adaptation.go.
package scheduler

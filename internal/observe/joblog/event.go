package joblog

import "log/slog"

// An Event is the stable code of an important line. A code is never used for anything else once it
// has been published; the text of the line may change at any time, and nothing may depend on it.
// docs/reference/log-events.md says of each one who writes it and what to do; a test holds both
// equal.
type Event string

// The events.
const (
	// Of the job as a whole.

	JobStarted     Event = "job_started"      // all processes were started; only in JSON
	JobRestored    Event = "job_restored"     // a restarted scheduler goes on with the job of its journal
	JobStopping    Event = "job_stopping"     // the job is being stopped by a signal or by the launcher
	JobFinished    Event = "job_finished"     // the job ended as it should
	JobFailed      Event = "job_failed"       // the job ended and did not finish
	Restart        Event = "restart"          // launch starts a job that failed again
	Generation     Event = "generation"       // the membership has a new generation
	ChangeBegun    Event = "change_begun"     // a change of the membership is pending, for one more cause
	ChangeMade     Event = "change_committed" // all workers are at the boundary, and the next generation begins
	HostChanged    Event = "host_changed"     // a host was added, removed, or failed to join
	LauncherSilent Event = "launcher_silent"  // the launcher did not run for longer than hosts wait for it
	HostNotice     Event = "host_notice"      // a host is about to be taken away, may be, or is not after all
	Scale          Event = "scale"            // a number of workers was asked for, reached or refused
	ScaleShort     Event = "scale_short"      // so many workers cannot be started
	Placed         Event = "placement"        // shards are at other servers
	NoBackups      Event = "no_backups"       // shards should have backups and have none
	Waiting        Event = "waiting"          // something has waited for others for a while

	// Of nodes, as the scheduler sees them.

	NodeRegistered Event = "node_registered" // a process has registered
	NodeJoined     Event = "node_joined"     // a process says that it is a member, or about to become one
	NodeReady      Event = "node_ready"      // a joining worker is ready to become a member
	NodeDropped    Event = "node_dropped"    // a joining worker does not become a member
	NodeLeft       Event = "node_left"       // a node has left as it may
	LeaveRefused   Event = "leave_refused"   // a worker asked to leave, and the job needs it
	LeaseWait      Event = "lease_wait"      // a lease has expired, and the scheduler waits for the node nevertheless
	NodeBack       Event = "node_back"       // such a node is heard from again
	WorkerLost     Event = "worker_lost"     // a worker was lost
	ServerLost     Event = "server_lost"     // a server was lost
	ServerChanged  Event = "server_changed"  // a server was added or removed as asked, or could not be added
	ServerPromoted Event = "server_promoted" // a server is now the primary of shards of which it was the backup
	BackupRefused  Event = "backup_refused"  // a backup does not take a shard

	// Of processes, as the launcher sees them.

	ProcessStarted    Event = "process_started"         // a process runs; only in JSON
	ProcessEnded      Event = "process_ended"           // a process has ended; only in JSON
	ProcessOutput     Event = "process_output"          // a line that a process printed on its standard error; only in JSON
	ProcessFailed     Event = "process_failed"          // a process ended, and the job does not survive that
	ProcessUnjoined   Event = "process_unjoined"        // a process ended before it had joined
	ProcessRestarting Event = "process_restarting"      // a process is started again
	SchedulerLost     Event = "scheduler_lost"          // the scheduler ended; it is started again
	SchedulerAgain    Event = "scheduler_listens_again" // a restarted scheduler takes requests

	// Of the scheduler's journal and of connections.

	JournalFailed        Event = "journal_failed"        // the journal cannot be written; no request is answered until it can
	JournalWritten       Event = "journal_written"       // it can be written again
	SchedulerUnreachable Event = "scheduler_unreachable" // a node gets no answer from the scheduler; training goes on meanwhile
	ConnectionRefused    Event = "connection_refused"    // a peer could not authenticate itself, or speaks another protocol
	HandlerPanicked      Event = "handler_panicked"      // a bug: a request made its handler panic; the process goes on

	// Of training.

	CheckpointComplete Event = "checkpoint_complete" // a checkpoint is whole
	CheckpointFailed   Event = "checkpoint_failed"   // a checkpoint could not be written
	CheckpointDamaged  Event = "checkpoint_damaged"  // a checkpoint cannot be used; an older one is
	Resumed            Event = "resumed"             // training goes on from a checkpoint
	WorkersChanged     Event = "workers_changed"     // a worker trains with other workers than before
	WorkerRemoved      Event = "worker_removed"      // a worker leaves as asked; its steps count
	LeaveAsked         Event = "leave_asked"         // a worker was told to end
	BatchChanged       Event = "batch_changed"       // adaptive training goes on with another batch
	SlowWorker         Event = "slow_worker"         // the others wait for a worker, or no longer
	GuardRefused       Event = "guard_refused"       // the guard refused or clipped a gradient
)

// With is the attribute that makes a line one of this event; args are its own attributes, as those
// of slog.Info.
func (e Event) With(args ...any) slog.Attr {
	attrs := append([]slog.Attr{slog.String("event", string(e))}, slog.Group("", args...).Value.Group()...)
	return slog.Attr{Value: slog.AnyValue(&eventAttrs{attrs})}
}

// A Node is what a line says of the node or the process that it is about.
type Node struct {
	Role    string
	Rank    int // -1: it has none
	Host    string
	Process uint32 // the number that launch gave it; 0: it was started by hand
}

// Of is With, and first says which node the line is about: node_role, node_rank, node_host and
// node_process.
func (e Event) Of(n Node, args ...any) slog.Attr {
	return e.With(append([]any{"node_role", n.Role, "node_rank", n.Rank, "node_host", n.Host, "node_process", n.Process}, args...)...)
}

// eventAttrs are attributes of a line that a handler may leave out. Pointers are comparable, as
// those who compare attributes expect.
type eventAttrs struct{ attrs []slog.Attr }

// LogValue makes them attributes of the line itself.
func (e *eventAttrs) LogValue() slog.Value { return slog.GroupValue(e.attrs...) }

// IsEvent reports whether an attribute is one of With.
func IsEvent(a slog.Attr) bool {
	_, ok := a.Value.Any().(*eventAttrs)
	return ok
}

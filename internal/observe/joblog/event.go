package joblog

import "log/slog"

// An Event is the stable code of an important line. A code is never used for anything else once it
// has been published; the text of the line may change at any time, and nothing may depend on it.
// docs/reference/log-events.md says of each one who writes it and what to do; a test holds both
// equal.
type Event string

// The events.
const (
	// These are about the job as a whole.

	JobStarted Event = "job_started" // all processes started (JSON only)

	// JobRestored says that a restarted scheduler goes on with the job that its journal tells of.
	JobRestored Event = "job_restored"

	// JobStopping says that a signal or the launcher stops the job.
	JobStopping Event = "job_stopping"

	JobFinished Event = "job_finished" // the job ended as it should
	JobFailed   Event = "job_failed"   // the job ended without finishing
	Restart     Event = "restart"      // launch starts a failed job again
	Generation  Event = "generation"   // the membership has a new generation

	// ChangeBegun says that a change of the membership is pending, for one more cause.
	ChangeBegun Event = "change_begun"

	// ChangeMade says that all workers are at the boundary, and the next generation begins.
	ChangeMade Event = "change_committed"

	// HostChanged says that a host was added, removed, or failed to join.
	HostChanged Event = "host_changed"

	// LauncherSilent says that the launcher did not run for longer than hosts wait for it.
	LauncherSilent Event = "launcher_silent"

	// HostNotice says that a host is about to be taken away, may be, or is not after all.
	HostNotice Event = "host_notice"

	// Scale says that a number of workers was asked for, reached or refused.
	Scale Event = "scale"

	ScaleShort Event = "scale_short" // so many workers cannot be started
	Placed     Event = "placement"   // shards are at other servers
	NoBackups  Event = "no_backups"  // shards have no backups, and should

	// Waiting says that something has waited for others for a while.
	Waiting Event = "waiting"

	// These are about nodes, as the scheduler sees them.

	NodeRegistered Event = "node_registered" // a process has registered

	// NodeJoined says that a process is a member, or about to become one.
	NodeJoined Event = "node_joined"

	// NodeReady says that a joining worker is ready to become a member.
	NodeReady Event = "node_ready"

	// NodeDropped says that a joining worker does not become a member.
	NodeDropped Event = "node_dropped"

	NodeLeft Event = "node_left" // a node has left as allowed

	// LeaveRefused says that a worker asked to leave, and the job needs it.
	LeaveRefused Event = "leave_refused"

	// LeaseWait says that a lease has expired, and the scheduler waits for the node nevertheless.
	LeaseWait Event = "lease_wait"

	// NodeBack says that a node that was silent is heard from again.
	NodeBack Event = "node_back"

	WorkerLost Event = "worker_lost" // a worker was lost
	ServerLost Event = "server_lost" // a server was lost

	// ServerChanged says that a server was added or removed as asked, or could not be added.
	ServerChanged Event = "server_changed"

	// ServerPromoted says that a server is now the primary of shards of which it was the backup.
	ServerPromoted Event = "server_promoted"

	BackupRefused Event = "backup_refused" // a backup takes no more shards

	// These are about processes, as the launcher sees them.

	ProcessStarted Event = "process_started" // a process runs (JSON only)
	ProcessEnded   Event = "process_ended"   // a process has ended (JSON only)

	// ProcessOutput is a line that a process printed on its standard error, in JSON only.
	ProcessOutput Event = "process_output"

	// ProcessFailed says that a process ended, and the job does not survive that.
	ProcessFailed Event = "process_failed"

	ProcessUnjoined   Event = "process_unjoined"   // a process ended before it joined
	ProcessRestarting Event = "process_restarting" // a process is started again

	// SchedulerLost says that the scheduler ended. It is started again.
	SchedulerLost Event = "scheduler_lost"

	SchedulerAgain Event = "scheduler_listens_again" // a restarted scheduler takes requests

	// These are about the scheduler's journal and about connections.

	// JournalFailed says that the journal cannot be written. No request is answered until it can.
	JournalFailed Event = "journal_failed"

	JournalWritten Event = "journal_written" // it can be written again

	// SchedulerUnreachable says that a node gets no answer from the scheduler. Training goes on
	// meanwhile.
	SchedulerUnreachable Event = "scheduler_unreachable"

	// ConnectionRefused says that a peer could not authenticate itself, or speaks another protocol.
	ConnectionRefused Event = "connection_refused"

	// HandlerPanicked is a bug: a request made its handler panic. The process goes on.
	HandlerPanicked Event = "handler_panicked"

	// These are about training.

	CheckpointComplete Event = "checkpoint_complete" // a checkpoint is whole
	CheckpointFailed   Event = "checkpoint_failed"   // a checkpoint could not be written

	// CheckpointDamaged says that a checkpoint cannot be used. An older one is.
	CheckpointDamaged Event = "checkpoint_damaged"

	Resumed Event = "resumed" // training goes on from a checkpoint

	// WorkersChanged says that a worker trains with other workers than before.
	WorkersChanged Event = "workers_changed"

	// WorkerRemoved says that a worker leaves as asked. Its steps count.
	WorkerRemoved Event = "worker_removed"

	LeaveAsked Event = "leave_asked" // a worker was told to end

	// BatchChanged says that adaptive training goes on with another batch.
	BatchChanged Event = "batch_changed"

	// SlowWorker says that the others wait for a worker, or no longer do.
	SlowWorker Event = "slow_worker"

	// GuardRefused says that the guard refused or clipped a gradient.
	GuardRefused Event = "guard_refused"
)

// With is the attribute that makes a line one of this event; args are its own attributes, as those
// of slog.Info.
func (e Event) With(args ...any) slog.Attr {
	attrs := append([]slog.Attr{slog.String("event", string(e))}, slog.Group("", args...).Value.Group()...)
	return slog.Attr{Value: slog.AnyValue(&eventAttrs{attrs})}
}

// A Node is what a line says of the node or the process that it is about.
type Node struct {
	Role string

	// Rank is -1 if the process has none.
	Rank int

	Host string

	// Process is the number that launch gave it; 0: it was started by hand.
	Process uint32
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

// IsEvent reports whether an attribute was made by With.
func IsEvent(a slog.Attr) bool {
	_, ok := a.Value.Any().(*eventAttrs)
	return ok
}

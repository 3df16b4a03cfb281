// Package joblog makes the loggers of a job's processes. PARAGON_LOG_FORMAT says how they write:
//
//	text  through slog.Default(), or in the form of the launcher's lines
//	json  one JSON object a line on the standard error
//
// A JSON line begins with time, level and msg, and then says who wrote it: job, role, rank,
// process, pid and host, all as they are when the line is written (a rank may change). The
// attributes of the line follow. An attribute with one of these names gets "node_" before it: it
// describes the node that the line is about, as in "node_rank".
//
// Important lines have an event: a stable code that operators match on instead of the text. The
// codes and their attributes are listed in event.go and in docs/reference/log-events.md. They are
// in JSON lines and in what a handler of the program's own gets; Paragon's text lines leave them
// out.
//
//	logger, err := joblog.Default(nil)
//	logger.Warn("worker 1 on a2 was lost", joblog.WorkerLost.With("node_rank", 1, "node_host", "a2"))
package joblog

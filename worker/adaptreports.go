package worker

import "time"

// adaptReports are what rank 0 tells the scheduler of how the job adapts, for its status and for
// whoever divides a cluster among jobs.
type adaptReports struct {
	// reported is when it last did, and misreported says that an error was logged.
	reported    time.Time
	misreported bool
}

// Package trialjob runs one attempt of a trial as a job: the launch program with workers, servers
// and a scheduler, or one process without them. It runs on this machine, on hosts, or as a task on
// a node of a cluster.
//
// Run makes the attempt's folder and its command line, listens for the workers (package remote),
// starts the processes, and waits for their end. What the workers report goes to the attempt's
// Search. Where the program does not connect, lines with metrics on rank 0's standard output are
// its reports. When all is over the verdict says what the end means: from what the search has
// answered, launch's result, what the workers said, and what they printed.
//
// The package knows nothing of studies and rules. Its errors have a Class, by which the search
// decides whether to try again.
package trialjob

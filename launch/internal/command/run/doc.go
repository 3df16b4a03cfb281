// Package run is launch without a subcommand: it runs one job on this machine or on its hosts.
//
// runJob is the whole of it as a list of steps: open the output, find the hosts, say what runs
// where, run it as often as the flags allow, tell how it ended. What a step opens, jobRun gives up
// again in the opposite order, however the job ends. The job itself is launch/internal/job; this
// package has what surrounds it in a process: signals, the terminal, files, and those who watch
// from outside.
package run

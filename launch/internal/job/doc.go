// Package job runs one job: a scheduler, its servers and workers, on machines that a start method
// reaches.
//
// Run starts the scheduler first, which picks a free port and reports it, then all servers and
// workers at once. Their output is merged by lines. The job succeeds when every worker has ended
// with code 0; servers and scheduler then end by themselves or are stopped. The first process that
// fails decides the exit code, and the others are stopped: workers get SIGTERM first, while the
// servers they may need for a checkpoint still run, then all processes get it, and at last SIGKILL.
// In a job whose hosts may leave, Run first tells the scheduler that all workers will stop: a
// worker that gets SIGTERM from outside the launcher leaves alone.
//
// Processes may come and go while the job runs, as far as Elastic says so. The scheduler decides,
// Run carries it out: it passes edits of host_worker on to the scheduler, follows its events,
// reaches and prepares hosts, starts workers that join, ends those that were removed, restarts
// processes that died, and reports to the scheduler what failed or ended. Repeat restarts a whole
// job that failed.
//
// Inside, core decides and shell carries out. The core is a pure function of events and time; a
// Machine is all that the shell needs of a start method. Where to look:
//
//	core.go, event.go, action.go, timers.go     the core: its state, what goes in, what comes out
//	start.go, start_scheduler.go                the start, until all processes run
//	forming.go, unjoined.go                     until the job is complete: processes that end early or never join
//	processes.go, machines.go                   processes and connections to hosts at any time
//	leaving.go                                  hosts that are being taken away
//	hosts.go, joining.go, servers.go, ranks.go  what the scheduler's events ask for: hosts and servers that come and go, new ranks
//	scale.go, scale_plan.go, roster.go, wish.go numbers of workers that somebody or rank 0 asks for
//	loss.go, replacement.go                     processes that die while the job goes on, and those in their place
//	requests.go, control.go                     requests to the scheduler
//	failure.go, stop.go                         which process is to blame, and the steps to the end
//	result.go, table.go, forget.go              what is reported of the job
//	shell*.go, environment.go                   the shell, and what each process finds in its environment
//	script_test.go, testdata                    scripts of the core; random_test.go holds it to its rules
package job

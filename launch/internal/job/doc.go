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
// Processes may come and go while the job runs, as far as Elastic says so. The scheduler alone
// decides: it has the wanted state, which Run watches (control.Wanted). Run compares it with the
// processes that there are, reaches and prepares hosts, starts what is missing, ends what is not
// wanted, and reports all that it observes (control.Observed). It passes edits of host_worker on.
// While the scheduler is away what it wanted last holds. The scheduler's own process is Run's: it
// starts it again. Repeat restarts a whole job that failed.
//
// Inside, core decides and shell carries out. The core is a pure function of events and time; a
// Machine is all that the shell needs of a start method. Where to look:
//
//	core.go, event.go, action.go, timers.go     the core: its state, what goes in, what comes out
//	start.go, start_scheduler.go                the start, until all processes run
//	forming.go, unjoined.go                     until the job is complete: processes that end early or never join
//	processes.go, machines.go                   processes and connections to hosts at any time
//	wanted.go, arrival.go                       the wanted state, and how it is brought about: processes that start, leave or end
//	observed.go, notices.go                     what is reported: processes and hosts, and notices that hosts are taken away
//	news.go                                     what people are told of the scheduler's decisions
//	loss.go                                     processes that die while the job goes on
//	requests.go, control.go                     requests to the scheduler
//	failure.go, stop.go                         which process is to blame, and the steps to the end
//	result.go, table.go, forget.go              what is reported of the job
//	shell*.go, environment.go                   the shell, and what each process finds in its environment
//	script_test.go, testdata                    scripts of the core; random_test.go holds it to its rules
package job

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
// Machine is all that the shell needs of a start method. The core is a sum of parts, each with its
// own state and none with a pointer to the core; its own methods are the procedures that need
// several of them. Where to look:
//
//	event.go, action.go, output.go         what goes in, what comes out, timers
//	core.go                                the core: which event is whose
//
//	node.go, processes.go                  one process, and the table of them
//	machines.go, gpus.go                   connections to hosts, their notices, their GPUs
//	arrivals.go, access.go, preparation.go wanted processes up to their start: hosts are reached and prepared
//	runner.go, reaper.go                   starts processes on their machines, ends processes
//	wanted.go                              what the scheduler wants, as it said last: only kept here
//	stateexchange.go                       the two requests by which both sides tell their states
//	requests.go                            what is asked of the scheduler and not answered yet
//	endpoint.go, registrations.go          where schedulers listen, and who has registered there at the start
//	history.go, losstext.go                the words for who comes and goes, and for those that are lost
//	verdictwait.go                         how long the scheduler may take to judge the end of a process
//	ending.go, checkpointstop.go           why the job ends: the exit code, the last line
//	standstill.go                          when launch itself did not run
//
//	start.go, start_scheduler.go           procedures: the start, until all processes run, and later schedulers
//	reconcile.go                           compares what is wanted with what there is: starts, ends, reports
//	ends.go                                what the end of a process means, as far as the launcher decides it
//	stop.go                                the steps to the end
//
//	result.go, table.go                    what is reported of the job
//	observer.go                            who else is told of processes: the spans
//	elasticoptions.go                      the options of a job that may change (Elastic), no procedures
//	shell*.go, environment.go              the shell, and what each process finds in its environment
//	script_test.go, testdata               scripts of the core; random_test.go holds it to its rules
package job

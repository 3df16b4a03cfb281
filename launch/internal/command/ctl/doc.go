// Package ctl is what asks running jobs: `launch ctl` and `launch top`.
//
// A command finds a job by the record that its launcher keeps on this machine, or by way of a
// launcher on another one (--join), and puts requests to the job's scheduler
// (internal/member/control). The scheduler decides; these commands only print its answers, wait for
// events, and end with 1 if what was asked for did not come about. A few commands of launch ctl
// need no job: plan and export.
//
// # Which job
//
// findJob looks at the flag --job, else takes the job that was started in this folder. Commands
// that only look (status, why, page, trace, top) also take the only job that runs; those that
// change something do not, so that nobody changes a job of which he did not think.
//
// # Waiting
//
// A request that the scheduler has accepted is done later, between two steps of the training, or
// fails later. With --wait a command follows the job's events: each has a number, a question for
// those after a number waits at the scheduler until there is one, and the number is taken before
// the request, so no event is missed. A scheduler that dies is started again within moments and has
// its events from the journal; until then requests are repeated.
//
// # On other machines
//
// The launcher there carries requests to the scheduler, of those kinds that remotecontrol.Allows.
// The job's credentials stay with it. What the two share is the secret of --secret-file.
package ctl

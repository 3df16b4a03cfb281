// Package ctl is what asks running jobs: `launch ctl` and `launch top`.
//
// A command finds a job by the record that its launcher keeps on this machine, or by way of a
// launcher on another one (--join), and puts requests to the job's scheduler (internal/member/control).
// The scheduler decides; these commands only print its answers, wait for events, and end with 1 if
// what was asked for did not come about. A few commands of launch ctl need no job: plan and export.
package ctl

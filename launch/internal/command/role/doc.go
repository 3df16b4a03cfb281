// Package role is what launch starts of itself as a process of a job: `launch role` is a scheduler
// or a server, as DMLC_ROLE says, `launch role bridge` is a Python process's member of the job
// (package bridge), and `launch slot` and `launch carry` run the workers' command of a trial.
//
// Only the bridge has flags, for the descriptors that Python gives it. What the others need is in the
// environment, which a launcher sets.
package role

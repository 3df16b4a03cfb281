// Package role is what launch starts of itself as a process of a job: `launch role` is a scheduler
// or a server, as DMLC_ROLE says, `launch role bridge` is a Python process's member of the job
// (package bridge), and `launch slot` and `launch carry` run the workers' command of a trial.
//
// But for the bridge these commands have no flags. What they need is in the environment, which only a launcher sets.
package role

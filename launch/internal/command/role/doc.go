// Package role is what launch starts of itself as a process of a job: `launch role` is a scheduler
// or a server, as DMLC_ROLE says, and `launch slot` and `launch carry` run the workers' command of
// a trial.
//
// These commands have no flags. What they need is in the environment, which only a launcher sets.
package role

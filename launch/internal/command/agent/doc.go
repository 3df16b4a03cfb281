// Package agent is `launch agent`: it supervises the processes of a job on one host.
//
// There are two forms. The launcher starts `launch agent LEASE` on its own machine and over ssh,
// and talks to it by its standard input and output. `launch agent --join ADDR` is started by people
// and clusters, and dials in at a launcher. The work is done by internal/hosts/agent and its folder
// dialin; here are the flags, the signals and the exit codes.
package agent

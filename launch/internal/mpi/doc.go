// Package mpi has mpirun start the agents of a job (launch agent --join), one on each host that
// mpirun knows: from a hosts file of its own, from its options, or from the allocation of a batch
// system (PBS, LSF, Grid Engine, Slurm). Nothing in a job uses MPI.
//
// mpirun is Open MPI's. It is run twice: once to learn the names of the hosts in the order of their
// ranks, and once for the agents, with the options
//
//	--map-by ppr:1:node  one agent on each host
//	--bind-to none       mpirun binds what it starts to one core where there are one or two, and the processes of the job would share that
//	--enable-recovery    without it mpirun ends all agents when one of them dies or ends with another code than 0, or when it loses a host
//
// (--continuous alone ends all when a host is lost; with orte_abort_on_non_zero_status alone mpirun
// never ends when an agent was killed.) There is one case in which mpirun 4.1 ends all
// nevertheless: an ssh of its own ends with an error before the connection of mpirun's daemon on
// that host has broken. After the loss of a host mpirun does not end by itself: Close ends it.
package mpi

// Package slurm runs launch inside an allocation of Slurm: it reads which nodes, tasks and GPUs
// there are, starts one agent on each node through srun, and writes batch scripts.
//
// An allocation is described by variables (SLURM_JOB_NODELIST, SLURM_TASKS_PER_NODE and others;
// Read). The nodes in the order of the nodelist give the order of the ranks, and a task is a slot
// for a worker. One srun starts `launch agent --join` once on each node, in a step that overlaps
// all others (Agents); the agents dial in (package internal/hosts/agent/dialin), and what they
// start is up to the job. Script prints a file for sbatch.
package slurm

// Names in the folder of a job, with which others join it.
const (
	SecretFile  = "secret"
	AddressFile = "address"
)

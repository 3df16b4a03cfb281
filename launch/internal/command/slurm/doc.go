// Package slurm is `launch slurm`: it prints batch scripts for sbatch, of a job and of nodes that
// join one.
//
// The script runs launch with the flags that are given here, among those for sbatch. They are read
// as the script's launch will read them, on an allocation of the form that the script asks for, so
// that a mistake is not found after hours in a queue. What the scripts say is
// launch/internal/slurm.
package slurm

package slurm

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// TrialStep is the start of a command line that runs one task in a step of its own on a node, with
// so many processors and GPUs, which no other such step has meanwhile, unless overlap says that it
// may. srun's standard input and output are the task's. A node that fails ends this step alone.
func TrialStep(node string, cpus, gpus int, overlap bool) []string {
	gres, words := "none", []string{"srun", "--exact"}
	if overlap {
		words = append(words, "--overlap")
	}
	if gpus > 0 {
		gres = "gpu:" + strconv.Itoa(gpus)
	}
	return append(words, "--nodes=1", "--ntasks=1", "--nodelist="+node, "--cpus-per-task="+strconv.Itoa(cpus), "--gres="+gres, "--mem=0",
		"--no-kill", "--wait=0", "--mpi=none", "--unbuffered", "--export=ALL", "--job-name=trial", "--")
}

// countsOfJob are variables that srun reads as options, too, and that are about the tasks and GPUs
// of the job.
var countsOfJob = []string{
	"SLURM_GPUS", "SLURM_GPUS_PER_NODE", "SLURM_GPUS_PER_SOCKET", "SLURM_GPUS_PER_TASK", "SLURM_GPU_BIND", "SLURM_GRES", "SLURM_STEP_GRES", "SLURM_NNODES",
	"SLURM_NPROCS", "SLURM_NTASKS", "SLURM_NTASKS_PER_NODE", "SLURM_OVERLAP", "SLURM_TRES_PER_TASK", "SLURM_WHOLE",
}

// TrialEnv is an environment for TrialStep's command: without the variables that srun would take
// for options.
func TrialEnv(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains(notPassedOn, name) || slices.Contains(countsOfJob, name)
	})
}

// GPUs is how many GPUs the job has on this node; 0: none. Slurm does not tell of other nodes,
// which usually have as many.
func GPUs(lookup func(string) (string, bool)) (int, error) {
	text, ok := lookup("SLURM_GPUS_ON_NODE")
	if !ok || text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > maxCount {
		return 0, fmt.Errorf("SLURM_GPUS_ON_NODE=%q, want a number from 0 to %d", text, maxCount)
	}
	return n, nil
}

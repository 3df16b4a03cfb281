//go:build unix

package agent

import (
	"slices"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/hosts/process"
)

// An agent that mpirun or srun started as one of their ranks does not make its processes that rank.
// What the user set, and what describes the allocation, they see.
func TestProcessesAreNoRanksOfMPIOrSlurm(t *testing.T) {
	for _, name := range []string{
		"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_UNIVERSE_SIZE", "OMPI_MCA_orte_hnp_uri", "OMPI_MCA_ess_base_vpid", "OMPI_MCA_pmix", "PMIX_RANK", "PMIX_SERVER_URI41",
		"PMI_RANK", "PMI_FD", "MPI_LOCALRANKID", "MV2_COMM_WORLD_RANK", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_STEP_ID", "SLURM_STEPID", "SLURM_NTASKS", "SLURM_SRUN_COMM_PORT",
	} {
		t.Setenv(name, "1")
	}
	kept := []string{
		"OMPI_MCA_btl=tcp,self", "OMPI_ALLOW_RUN_AS_ROOT=1", "PMIX_MCA_gds=hash", "SLURM_JOB_ID=7", "SLURM_JOB_NODELIST=n[1-4]", "SLURM_CPUS_ON_NODE=8", "PBS_JOBID=3", "PMIXTURE=x",
	}
	for _, v := range kept {
		name, value, _ := strings.Cut(v, "=")
		t.Setenv(name, value)
	}
	c, _ := serve(t, Config{})
	out := newOutput()
	spec := shell("env")
	spec.Env = []string{"SLURM_LOCALID=wanted"} // of --env
	h, err := c.Start(t.Context(), spec, process.Output{Stdout: out, Stderr: newOutput()})
	if err != nil {
		t.Fatal(err)
	}
	await(t, h)
	var got []string
	for _, v := range strings.Split(out.String(), "\n") {
		for _, prefix := range []string{"OMPI_", "PMI", "SLURM_", "PBS_", "MPI_", "MV2_"} {
			if strings.HasPrefix(v, prefix) {
				got = append(got, v)
			}
		}
	}
	slices.Sort(got)
	want := append([]string{"SLURM_LOCALID=wanted"}, kept...)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("a process sees\n%q, want\n%q", got, want)
	}
}

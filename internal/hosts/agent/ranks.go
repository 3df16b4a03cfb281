package agent

import "strings"

// An agent may itself be a rank of another launcher: of mpirun (Open MPI, MPICH, Intel MPI) or of
// srun. What such a launcher tells its ranks is about the agents, and its variables say who the
// agent is. The job's processes must not inherit that: an MPI library in one of them would take the
// agent's place in mpirun's job, and a library that looks for its rank (OMPI_COMM_WORLD_RANK,
// SLURM_PROCID) would find the same one in all workers of a host. To MPI_Init they look like
// programs that nobody's mpirun has started, each a world of its own.
//
// What describes the machine or the allocation stays (SLURM_JOB_ID, SLURM_JOB_NODELIST,
// SLURM_CPUS_ON_NODE, PBS_JOBID, LSB_JOBID), and so do parameters of users such as OMPI_MCA_btl.
// --env NAME=VALUE sets any of them nevertheless.
var (
	// rankPrefixes are how variables begin that tell a process its rank.
	rankPrefixes = []string{
		"OMPI_COMM_WORLD_", "OMPI_MCA_orte_", "OMPI_MCA_ess", "OMPI_MCA_pmix", "OMPI_MCA_plm", "PRTE_", "PMIX_", // Open MPI and its runtimes
		"PMI_", "PMI2_", "HYDRA_", "HYDI_", "MV2_COMM_WORLD_", // MPICH, Intel MPI, MVAPICH
		"PALS_", "FLUX_TASK_", "JSM_", // launchers of HPE, Flux, IBM
		"SLURM_STEP", "SLURM_SRUN_COMM_", // of a step; STEPID, too
	}
	// rankNames are the others.
	rankNames = map[string]bool{
		"OMPI_UNIVERSE_SIZE": true, "OMPI_APP_CTX_NUM_PROCS": true, "OMPI_NUM_APP_CTX": true, "OMPI_FIRST_RANKS": true, "OMPI_COMMAND": true, "OMPI_ARGV": true,
		"OMPI_FILE_LOCATION": true, "OMPI_MCA_initial_wdir": true, "OMPI_MCA_shmem_RUNTIME_QUERY_hint": true, "OMPI_MCA_mpi_oversubscribe": true,
		"MPI_LOCALRANKID": true, "MPI_LOCALNRANKS": true, "MPIR_CVAR_CH3_INTERFACE_HOSTNAME": true,
		"SLURM_PROCID": true, "SLURM_LOCALID": true, "SLURM_NODEID": true, "SLURM_GTIDS": true, "SLURM_TASK_PID": true,
		"SLURM_LAUNCH_NODE_IPADDR": true, "SLURM_NTASKS": true, "SLURM_NPROCS": true, "SLURM_DISTRIBUTION": true, "SLURM_PMIX_MAPPING_SERV": true,
		"SLURM_PMIXP_ABORT_AGENT_PORT": true,
	}
)

// withoutRank leaves out what makes a process a rank of mpirun or srun.
func withoutRank(env []string) []string {
	kept := make([]string, 0, len(env))
	for _, v := range env {
		if name, _, _ := strings.Cut(v, "="); !tellsRank(name) {
			kept = append(kept, v)
		}
	}
	return kept
}

func tellsRank(name string) bool {
	if rankNames[name] {
		return true
	}
	for _, prefix := range rankPrefixes {
		if strings.HasPrefix(name, prefix) {
			return !strings.HasPrefix(name, "PMIX_MCA_") // a user's parameter
		}
	}
	return false
}

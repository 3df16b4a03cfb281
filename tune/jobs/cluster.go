package jobs

// A Cluster is the nodes that a cluster's scheduler, such as Slurm, has given to this search. Each
// attempt of a trial runs there as a task of its own (Slurm calls it a job step), which the
// scheduler confines to the attempt's processors and GPUs, and accounts for. The folder of the
// study and the launch program must have the same paths on all nodes. launch tune sets it inside
// an allocation of Slurm.
type Cluster struct {
	Nodes []ClusterNode
	// Command returns the words before a command that run it as a task. The task's standard
	// input and output must be passed through byte by byte. SIGTERM must end the task.
	Command func(TaskRequest) []string
	// Env is the environment of that command.
	Env []string
}

// A ClusterNode is a node for trials.
type ClusterNode struct {
	Name       string
	CPUs, GPUs int
}

// A TaskRequest is what a task is to have of a node.
type TaskRequest struct {
	Node       string
	CPUs, GPUs int
	// Overlap says that other tasks may have some of the same: a node was lost. Slurm then no
	// longer counts what tasks that end give back, and no task would ever start in their place.
	// The search counts for itself.
	Overlap bool
}

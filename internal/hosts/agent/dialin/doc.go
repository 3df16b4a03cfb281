// Package dialin connects agents that dial in with the launcher that waits for them.
//
// Where a scheduler (Slurm, MPI, Kubernetes) or a cloud starts the machines, the launcher cannot
// reach them by ssh. There each machine runs `launch agent --join ADDR`, which calls Join. The
// launcher calls Listen, waits until enough agents are there (Wait), and takes them by name (Dial).
// A Machine is then what ssh's is: package agent's frames run over the connection that the agent
// opened.
//
// Both ends have the same Secret, and prove it to each other inside TLS 1.3 with keys that are
// derived from it. The launcher then gives the agent an identity of an authority that lives as long
// as the launcher. With that the agent comes back after its connection broke, so it cannot come
// back to another launcher. Below the frames is a stream that outlives its connection (package
// resume): within the lease, a broken connection costs nothing but time. When the lease has expired
// each end declares the other lost; the agent then ends all its processes.
//
// Every session of an agent is one run of agent.Serve. When the launcher closes the Machine, the
// agent ends its processes and dials in anew: it is idle, and can be dialled again. Listener.Close
// tells all agents that the job is over.
package dialin

// Package kubernetes renders a job as manifests for Kubernetes.
//
// Nothing here speaks to a cluster: Render is a function from a Config to text, and the same Config
// gives the same text.
//
// A job has three kinds of pods. The scheduler's one runs launch itself, which waits for agents
// that dial in; each pod of servers or workers runs one agent. Each kind is an Indexed Job, which
// gives every pod a host name that a replacement gets, too: the rank of a worker stays with its
// index. A headless Service makes the names known. With Config.JobSet the three Jobs are one
// JobSet.
//
// # When a pod ends
//
// A Job replaces a pod that failed, and never one that succeeded: its index is complete. So an exit
// code of 0 means that the job is over, and an agent that has left because of SIGTERM exits with
// 143. The Jobs' podFailurePolicy then decides, the first rule that fits:
//
//	any pod       condition DisruptionTarget       replaced, not counted    (evicted, preempted, drained, its node lost)
//	scheduler     exit code not 85, 137 or 143     the Job fails            (the job has failed, and launch has used up its --restarts)
//	scheduler     85, 137, 143                     replaced, counted        (stopped for requeue, killed, stopped by hand)
//	agent         2                                the Job fails            (its command line is wrong, in every pod)
//	agent         any other                        replaced, counted        (lost its launcher, refused, killed for memory, ...)
//
// What is counted is limited: by backoffLimit for the scheduler, by backoffLimitPerIndex for each
// pod of servers and workers. A scheduler that is replaced starts the job again from its newest
// checkpoint (PARAGON_RESUME); the agents wait for it (launch agent --rejoin).
package kubernetes

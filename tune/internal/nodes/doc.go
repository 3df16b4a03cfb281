// Package nodes knows where trials run: on this machine, on hosts that are reached by ssh, or on
// the nodes that a cluster's scheduler has given to the search. It allocates their processors, GPUs
// and slots (package slots) to one trial at a time.
//
// A Set is found once (Find). Its nodes come and go: hosts are added and removed by commands, and a
// host that has failed a trial or cannot be reached is set aside. No trials start on it until it
// has answered a probe; trials that run on it end only where it cannot be reached. Keep makes the
// probes, and says when no host has been left for too long. The nodes of a cluster are only ever
// removed.
//
// The package starts no trials and knows nothing of studies.
package nodes

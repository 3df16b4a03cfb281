package worker

import "runtime"

// DefaultThreads is the number of threads for each device of a worker: GOMAXPROCS divided by the
// devices, at least 1. launch sets GOMAXPROCS to a worker's share of its host's cores, so that the
// workers of a host do not ask for more than there are.
func DefaultThreads(devices int) int { return max(1, runtime.GOMAXPROCS(0)/max(devices, 1)) }

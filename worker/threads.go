package worker

import (
	"runtime"
	"strconv"
)

// LocalWorkersVariable is the environment variable by which a launcher tells a worker how many workers its host runs.
const LocalWorkersVariable = "PARAGON_LOCAL_WORKERS"

// DefaultThreads is the number of threads for each device of a worker, so that the workers of one host do not ask for more
// than its cores together: the cores divided by the workers of the host, as getenv(LocalWorkersVariable) tells, and by
// devices; at least 1.
func DefaultThreads(getenv func(string) string, devices int) int {
	workers, err := strconv.Atoi(getenv(LocalWorkersVariable))
	if err != nil || workers < 1 {
		workers = 1
	}
	return max(1, runtime.GOMAXPROCS(0)/(workers*max(devices, 1)))
}

package telemetry

import (
	"sync"

	"github.com/paragon-train/paragon/internal/observe/procs"
)

// CollectProcess makes r tell the process's resident memory and CPU time, where the system tells
// them.
func CollectProcess(r *Recorder) {
	// mu lets one goroutine at a time read memory.
	var mu sync.Mutex
	memory, err := procs.OpenMemory()
	r.Collect(func(r *Recorder) {
		if err == nil {
			mu.Lock()
			bytes, err := memory.Resident()
			mu.Unlock()
			if err == nil {
				r.Set(ResidentBytes, float64(bytes))
			}
		}
		if seconds, ok := cpuSeconds(); ok {
			r.Set(CPUSeconds, seconds)
		}
	})
}

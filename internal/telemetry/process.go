package telemetry

// CollectProcess makes r tell the process's resident memory and CPU time, where the system tells them.
func CollectProcess(r *Recorder) {
	r.Collect(func(r *Recorder) {
		if bytes, ok := residentBytes(); ok {
			r.Set(ResidentBytes, bytes)
		}
		if seconds, ok := cpuSeconds(); ok {
			r.Set(CPUSeconds, seconds)
		}
	})
}

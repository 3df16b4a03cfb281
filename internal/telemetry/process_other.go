//go:build !linux

package telemetry

func residentBytes() (float64, bool) { return 0, false }

func cpuSeconds() (float64, bool) { return 0, false }

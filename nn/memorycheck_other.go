//go:build !linux

package nn

// machineMemory is 0: it is not known.
func machineMemory() int64 { return 0 }

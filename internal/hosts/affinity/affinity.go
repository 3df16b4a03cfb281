// Package affinity binds processes to processors. A processor is named by its number, as the kernel
// counts them.
//
// Only Linux binds; elsewhere all functions but Own do nothing, and processors are only counted.
package affinity

import "runtime"

// counted are the numbers of as many processors as Go sees, where the system does not say which
// they are.
func counted() []int {
	cpus := make([]int, runtime.NumCPU())
	for i := range cpus {
		cpus[i] = i
	}
	return cpus
}

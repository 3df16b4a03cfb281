// Package alloctest counts the allocations of code that promises to make none.
package alloctest

import "testing"

// attempts bounds how often PerRun counts.
const attempts = 5

// PerRun returns how often f allocates, the average of some runs. The count is the process's: what
// the runtime or another goroutine allocates at the same time is in it. Code that allocates does so
// at every attempt, so that the least of several is the code's own.
func PerRun(runs int, f func()) float64 {
	least := testing.AllocsPerRun(runs, f)
	for range attempts - 1 {
		if least == 0 {
			break
		}
		least = min(least, testing.AllocsPerRun(runs, f))
	}
	return least
}

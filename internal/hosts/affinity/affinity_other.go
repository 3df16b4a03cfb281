//go:build !linux

package affinity

// Own returns the processors that this process may use.
func Own() []int { return counted() }

// Process does nothing on this system.
func Process([]int) error { return nil }

// Start calls start.
func Start(_ []int, start func() error) error { return start() }

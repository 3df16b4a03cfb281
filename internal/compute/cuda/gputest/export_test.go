package gputest

import "testing"

// BeOn has tests take stand-ins for the GPU itself until the test's end.
func BeOn(t *testing.T) {
	on = true
	t.Cleanup(func() { on = false })
}

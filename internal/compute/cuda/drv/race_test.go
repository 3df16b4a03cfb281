//go:build race

package drv_test

// The race detector has pools forget what was put into them, purego's among them.
func init() { raceEnabled = true }

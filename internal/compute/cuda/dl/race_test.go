//go:build race

package dl_test

// The race detector has pools forget what was put into them, purego's among them.
func init() { raceEnabled = true }

//go:build race

package data

// Under the race detector unpacking the archive takes ten times as long.
func init() { raceEnabled = true }

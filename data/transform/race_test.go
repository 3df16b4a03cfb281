//go:build race

package transform

func init() { raceEnabled = true }

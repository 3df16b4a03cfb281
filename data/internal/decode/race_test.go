//go:build race

package decode_test

func init() { raceEnabled = true }

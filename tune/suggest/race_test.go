//go:build race

package suggest

// underRace says that the race detector is on: a search on one goroutine takes ten times as long
// under it and is tested without it.
const underRace = true

//go:build !race

package suggest

// underRace is explained in race_test.go.
const underRace = false

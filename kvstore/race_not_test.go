//go:build !race

package kvstore_test

// underRace is explained in race_test.go.
const underRace = false

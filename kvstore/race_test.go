//go:build race

package kvstore_test

// underRace says that the race detector keeps notes on all memory that was ever touched: resident
// memory then says little.
const underRace = true

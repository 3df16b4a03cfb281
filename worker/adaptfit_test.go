package worker

import (
	"testing"

	"github.com/paragon-train/paragon/adapt"
)

// However the workers change, the local batch is at least the least one if the limits allow any
// such batch.
func TestTheBatchHasTheLeastLocalBatch(t *testing.T) {
	for _, allowed := range []bool{true, false} {
		for least := 1; least <= 6; least++ {
			for most := 6; most <= 20; most++ {
				for workers := 1; workers <= 4; workers++ {
					for local := 1; local <= 9; local++ {
						for accumulation := range 4 {
							limits, possible := adapt.Limits{MaxBatch: most, MinLocal: least, Accumulation: allowed}, false
							got := batchLimits{limits, 6, 8}.fit(batch{local, accumulation}, workers)
							for m := 1; m <= most; m++ {
								for s := range most {
									possible = possible || limits.Allows(6, workers, m, s)
								}
							}
							if possible && got.LocalBatch < least {
								t.Fatalf("%+v with %d workers: %v became %v, below the least local batch", limits, workers, batch{local, accumulation}, got)
							}
						}
					}
				}
			}
		}
	}
}

// However the workers and the limits change, the batch is then from the initial one, rounded up to
// the workers, to the largest.
func TestTheBatchIsWithinTheLimitsOfTheWorkers(t *testing.T) {
	for initial := 1; initial <= 9; initial += 2 {
		for most := initial; most <= 26; most++ {
			for workers := 1; workers <= 4; workers++ {
				for local := 1; local <= 13; local++ {
					for accumulation := range 4 {
						for _, allowed := range []bool{true, false} {
							limits := batchLimits{adapt.Limits{MaxBatch: most, Accumulation: allowed}, initial, 4}
							became := limits.fit(batch{local, accumulation}, workers)
							least := ((initial-1)/workers + 1) * workers
							upTo := max(least, most/workers*workers)
							if workers == 1 && !allowed {
								upTo = initial
							}
							if upTo == least { // one number, which equal runs may not make
								upTo += became.Accumulation * workers
							}
							if got := became.perStep() * workers; got < initial || got > upTo {
								t.Fatalf("initial batch %d, MaxBatch %d, %d workers: %v became %v, which is %d in all, want %d to %d",
									initial, most, workers, batch{local, accumulation}, became, got, initial, upTo)
							}
						}
					}
				}
			}
		}
	}
}

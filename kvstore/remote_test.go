package kvstore_test

import (
	"os"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/testing/jobtest"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/kvstore/kvstoretest"
)

// openJob returns a harness's Open for whole jobs: a scheduler and servers as their programs run
// them.
func openJob(over transport.Network) func(t testing.TB, c kvstoretest.Config) []kvstore.Store {
	return func(t testing.TB, c kvstoretest.Config) []kvstore.Store {
		t.Helper()
		servers := c.Servers
		if servers == 0 {
			servers = 2
		}
		job := jobtest.New(t, jobtest.Config{Workers: c.Workers, Servers: servers, TCP: over != nil, Over: over,
			Lease: time.Minute, Start: 2 * time.Minute}) // time is real, and the machine may be busy
		return job.Stores(t, c.Type, c.Options...)
	}
}

// The job's store, over connections in memory.
func TestStoresOverPipes(t *testing.T) {
	kvstoretest.Run(t, kvstoretest.Harness{Open: openJob(nil), Workers: unlessShort([]int{3}, 1, 4), Servers: unlessShort([]int{1, 3}, 2), Edge: smallEdge()})
}

// The job's store as it runs within a host: through shared memory, and over unix sockets.
func TestStoresWithinAHost(t *testing.T) {
	kvstoretest.Run(t, kvstoretest.Harness{Open: openJob(transport.Auto), Workers: unlessShort([]int{2}, 1, 4), Servers: unlessShort(nil, 2, 1), Brief: brief(), Edge: smallEdge()})
	kvstoretest.Run(t, kvstoretest.Harness{Open: openJob(transport.Unix), Workers: unlessShort([]int{1}, 3), Types: unlessShort([]string{"dist_async"}, "dist_sync"), Servers: unlessShort(nil, 3, 2), Brief: brief(), Edge: smallEdge()})
}

// The job's store, over TCP.
func TestStoresOverTCP(t *testing.T) {
	kvstoretest.Run(t, kvstoretest.Harness{Open: openJob(transport.TCP), Workers: unlessShort([]int{2}, 4, 7), Servers: unlessShort(nil, 2, 1), Brief: brief(), Edge: smallEdge()})
	kvstoretest.Run(t, kvstoretest.Harness{Open: openJob(transport.TCP), Workers: []int{1}, Types: []string{"dist_device_sync"}, Servers: unlessShort(nil, 3, 2), Brief: brief(), Edge: smallEdge()})
}

// seeds is how many runs a randomised test makes: quick ones, or all with PARAGON_TEST_SLOW.
func seeds(quick, all uint64) uint64 {
	if os.Getenv("PARAGON_TEST_SLOW") != "" {
		return all
	}
	return quick
}

// unlessShort adds what the full set of tests has more than the quick one. PARAGON_TEST_SLOW asks
// for the full one.
func unlessShort[T any](quick []T, more ...T) []T {
	if os.Getenv("PARAGON_TEST_SLOW") == "" || testing.Short() {
		return quick
	}
	return append(quick, more...)
}

// smallEdge is the edge of big arrays (kvstoretest.Harness) where another test takes those of the
// predecessors, which TestJobsOfProcesses does. Arrays of this edge are cut and lent, too.
// PARAGON_TEST_SLOW asks for those of the predecessors everywhere.
func smallEdge() int {
	if os.Getenv("PARAGON_TEST_SLOW") != "" {
		return 0
	}
	return 260
}

// brief says that the suite is brief where TestStoresOverPipes runs all of it. PARAGON_TEST_SLOW
// asks for all everywhere.
func brief() bool { return os.Getenv("PARAGON_TEST_SLOW") == "" }

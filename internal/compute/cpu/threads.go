package cpu

import "github.com/paragon-train/paragon/internal/compute/pool"

// A threads cuts the work of an op into pieces for the threads of a pool. The pieces depend on the
// amount of work alone, never on the number of threads, so that sums over them are the same bits
// everywhere.
type threads struct{ pool *pool.Pool }

// split returns a function that calls f over [0,n) in pieces of about grain, on all threads.
func (t threads) split(n, grain int, f func(lo, hi int)) func() {
	k := pieces(n, grain)
	piece := func(i int) { f(i*n/k, (i+1)*n/k) }
	return func() { t.pool.Run(k, piece) }
}

// splitThreads is split whose f is told its thread, from 0 to Threads()-1 of the pool.
func (t threads) splitThreads(n, grain int, f func(thread, lo, hi int)) func() {
	k := pieces(n, grain)
	piece := func(thread, i int) { f(thread, i*n/k, (i+1)*n/k) }
	return func() { t.pool.RunThreads(k, piece) }
}

// pieces is the number of pieces that n is cut into: each about grain, but where they would be few,
// and more than one, each a quarter of it, for more threads.
func pieces(n, grain int) int {
	k := max(1, (n+grain-1)/grain)
	if k > 1 {
		k = max(k, min(64, 4*k, n))
	}
	return k
}

// grain is the number of values in a piece of an elementwise pass: large against the cost of
// handing it out, small enough for the second-level cache.
const grain = 16384

// rowGrain is grain in rows of c values.
func rowGrain(c int) int { return max(1, grain/c) }

// then makes a step of functions that cannot fail.
func then(fs ...func()) func() error {
	if len(fs) == 1 {
		f := fs[0]
		return func() error { f(); return nil }
	}
	return func() error {
		for _, f := range fs {
			f()
		}
		return nil
	}
}

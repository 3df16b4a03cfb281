package transport

import (
	"sync"
	"sync/atomic"

	"github.com/paragon-train/paragon/internal/store/wire"
)

// A requestPool serves the requests of one connection, each on its own goroutine, because a request
// may wait for others. Goroutines, and the stacks that they have grown, are reused; up to maxIdle
// of them wait for the next request.
type requestPool struct {
	// serve serves one request. It may be called concurrently.
	serve func(job)
	jobs  chan job
	quit  <-chan struct{}
	idle  atomic.Int32
	wg    sync.WaitGroup
}

const maxIdle = 64

// A job is a request that was read, or the error that refuses it.
type job struct {
	h       wire.Header
	r       *Request
	refused error
}

// newRequestPool returns a pool whose goroutines end when quit is closed, each after its request.
func newRequestPool(serve func(job), quit <-chan struct{}) *requestPool {
	return &requestPool{serve: serve, jobs: make(chan job), quit: quit}
}

// do serves a request on a goroutine of the pool. Only the connection's reader calls it.
func (w *requestPool) do(j job) {
	select {
	case w.jobs <- j:
	default:
		w.wg.Add(1)
		go w.work(j)
	}
}

// work serves j, and then other requests until there are enough idle goroutines or the
// connection ends.
func (w *requestPool) work(j job) {
	defer w.wg.Done()
	for {
		w.serve(j)
		j = job{}
		if w.idle.Add(1) > maxIdle {
			w.idle.Add(-1)
			return
		}
		select {
		case j = <-w.jobs:
			w.idle.Add(-1)
		case <-w.quit:
			return
		}
	}
}

package kvstore

import "sync"

// A callPool runs calls concurrently on goroutines that it reuses. Their number is not bounded:
// with a bound two workers could block each other, each waiting for rounds that the other cannot
// begin.
type callPool struct {
	jobs chan *call
	quit chan struct{}
	wg   sync.WaitGroup
}

func newCallPool() *callPool {
	return &callPool{jobs: make(chan *call), quit: make(chan struct{})}
}

// do runs c on a goroutine of the pool. It must not be called after close.
func (w *callPool) do(c *call) {
	select {
	case w.jobs <- c:
	default:
		w.wg.Add(1)
		go w.work(c)
	}
}

func (w *callPool) work(c *call) {
	defer w.wg.Done()
	for {
		c.run()
		select {
		case c = <-w.jobs:
		case <-w.quit:
			return
		}
	}
}

// close waits until all goroutines have ended.
func (w *callPool) close() {
	close(w.quit)
	w.wg.Wait()
}

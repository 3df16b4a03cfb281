package kvstore

import "sync"

// A crew runs calls beside each other on goroutines that it keeps for the next ones. There are as many as calls have ever
// run at one time: a bound would let two workers block each other, each waiting for rounds that the other cannot begin.
type crew struct {
	jobs chan *call
	quit chan struct{}
	wg   sync.WaitGroup
}

func newCrew() *crew {
	return &crew{jobs: make(chan *call), quit: make(chan struct{})}
}

// do runs c soon. It must not be called after close.
func (w *crew) do(c *call) {
	select {
	case w.jobs <- c:
	default:
		w.wg.Add(1)
		go w.work(c)
	}
}

func (w *crew) work(c *call) {
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

// close waits for all goroutines.
func (w *crew) close() {
	close(w.quit)
	w.wg.Wait()
}

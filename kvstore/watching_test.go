package kvstore

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A watched is an opWatcher by itself, with requests that are never answered.
type watched struct {
	*opWatcher
	r              *requests
	ended, closing chan struct{}
	noted          int
}

func newWatched(timeout time.Duration) *watched {
	w := &watched{ended: make(chan struct{}), closing: make(chan struct{})}
	w.opWatcher = newOpWatcher(watcherEnv{timeout: timeout, noteEvery: 5 * time.Second, jobEnded: w.ended, closing: w.closing,
		jobEndError: func() error { return errJobOver },
		note:        func(*op, time.Duration) { w.noted++ }})
	w.r = &requests{watcher: w.opWatcher}
	return w
}

var errJobOver = errors.New("the job is over")

// wait waits like an op with one call, under a context that never ends, and returns what ended it.
func (w *watched) wait(t *testing.T) error {
	o := newOp(w.r, "pull", "x", 0)
	w.add(o, t.Context())
	<-o.Done()
	w.remove(o)
	return o.result()
}

// The timeout ends each op when its own time is over, and long waits are noted once in a while for
// all ops together.
func TestEachOpHasItsOwnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatched(12 * time.Second)
		defer w.opWatcher.close()
		began := time.Now()
		took := make(chan time.Duration, 10)
		for i := range 10 {
			go func() {
				time.Sleep(time.Duration(i) * 100 * time.Millisecond)
				from := time.Now()
				if err := w.wait(t); !errors.Is(err, ErrUnavailable) {
					t.Errorf("op %d: got error %v, want ErrUnavailable", i, err)
				}
				took <- time.Since(from)
			}()
		}
		for range 10 {
			if got := <-took; got != 12*time.Second {
				t.Errorf("an op waited %v, want 12 s", got)
			}
		}
		if w.noted < 2 || w.noted > 3 {
			t.Errorf("in %v: ten waits were noted %d times, want 2 or 3", time.Since(began), w.noted)
		}
	})
}

// The end of the job, or of the store, ends all ops and those that begin later.
func TestTheEndOfAllEndsEachOp(t *testing.T) {
	for _, c := range []struct {
		end  func(w *watched)
		want error
	}{{func(w *watched) { close(w.ended) }, errJobOver}, {func(w *watched) { close(w.closing) }, ErrClosed}} {
		synctest.Test(t, func(t *testing.T) {
			w := newWatched(0)
			defer w.opWatcher.close()
			errs := make(chan error)
			for range 2 {
				go func() { errs <- w.wait(t) }()
			}
			synctest.Wait()
			c.end(w)
			for i := range 3 {
				if i == 2 {
					go func() { errs <- w.wait(t) }()
				}
				if err := <-errs; !errors.Is(err, c.want) {
					t.Errorf("op %d: got error %v, want %v", i, err, c.want)
				}
			}
			if err := w.context().Err(); err == nil {
				t.Error("the context of other calls goes on")
			}
		})
	}
}

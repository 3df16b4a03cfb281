// Package kvstoretest is the suite that every kvstore.Store passes: the numbers that the
// predecessors' tests assert, and the promises of kvstore's package comment.
//
// A Case is a small program that each worker of a job runs on its own store. Run runs all cases on
// jobs that a Harness opens in this process; Work runs some of them as one worker of a job whose
// other workers are other processes.
//
//	func TestSuite(t *testing.T) {
//		kvstoretest.Run(t, kvstoretest.Harness{Workers: []int{1, 2}, Open: openJob})
//	}
package kvstoretest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/optim"
)

// A Config says which job a Harness opens.
type Config struct {
	// Type is the stores', as kvstore.Create takes it.
	Type    string
	Workers int
	// Servers is 0 where the harness may choose.
	Servers int
	Options []kvstore.Option
}

// A Harness opens jobs.
type Harness struct {
	// Open starts a job and returns its workers' stores, rank 0 first. What it started ends
	// with t's cleanup, after the stores were closed.
	Open func(t testing.TB, c Config) []kvstore.Store
	// Workers are the numbers of workers to run the suite with.
	Workers []int
	// Types are the stores' types; a case runs on those it is for. None: dist_sync and
	// dist_async.
	Types []string
	// Edge is that of the square arrays that are big; 0: 1200, as in the predecessors' tests.
	// 260 will do for keys to be cut over the servers, and takes a tenth of the time. Below
	// 1200 there are also fewer keys and pushes where their number is large.
	Edge int
	// Brief leaves out the cases that have a job of their own for their optimizer, and the jobs
	// that are saved and loaded unless Servers names some. They say what servers make of what
	// came to them, and another harness runs them; what is left says that pushes and pulls of
	// every form come whole.
	Brief bool
	// WorkersPerHost is how many workers share a host and add up within it: the first ones, the
	// next ones and so on. 0: none do.
	WorkersPerHost int
	// Servers are the numbers of servers that jobs are saved and loaded with. None: the harness
	// has one place for shards, or is brief.
	Servers []int
}

// A Case is one promise.
type Case struct {
	Name string
	// Types are the stores it is about. None: all that are synchronous.
	Types []string
	// Workers are the numbers of workers that it is about. None: all.
	Workers []int
	// Group names cases that share one job, so that fewer have to be started; empty: a job of
	// its own. Optimizer is what the group's job is given first; nil: nothing.
	Group     string
	Optimizer *optim.Config
	Options   []kvstore.Option
	// Edge is as in Harness, and PerHost its WorkersPerHost.
	Edge    int
	PerHost int
	Run     func(w *Worker)
}

// Timeout bounds each wait of a store, so that a broken promise fails rather than hangs. It is
// long: machines that test are often busy with other things.
const Timeout = 3 * time.Minute

func (c *Case) isFor(kind string) bool {
	if len(c.Types) == 0 {
		return kind != "dist_async"
	}
	return slices.Contains(c.Types, kind)
}

func (c *Case) options() []kvstore.Option {
	return append([]kvstore.Option{kvstore.WithTimeout(Timeout)}, c.Options...)
}

// Together runs a case on all workers of a job at the same time.
func Together(t testing.TB, stores []kvstore.Store, c Case) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*Timeout)
	defer cancel()
	errs := make([]error, len(stores))
	var wg sync.WaitGroup
	for i, kv := range stores {
		wg.Go(func() {
			if errs[i] = Work(ctx, kv, c); errs[i] != nil {
				// The others would only wait for this one.
				cancel()
			}
		})
	}
	wg.Wait()
	var waited error
	for i, err := range errs {
		switch {
		case err == nil:
		case errors.Is(err, context.Canceled):
			// It has waited for a worker that had failed.
			waited = fmt.Errorf("rank %d: %w", i, err)
		default:
			t.Errorf("rank %d of %d: %v", i, len(stores), err)
		}
	}
	if waited != nil && !t.Failed() {
		t.Error(waited)
	}
	if t.Failed() {
		t.FailNow()
	}
}

// Work runs cases one after another as one worker, and returns how the first of them failed.
func Work(ctx context.Context, kv kvstore.Store, cases ...Case) error {
	for _, c := range cases {
		w := &Worker{Store: kv, Ctx: ctx, name: c.Name, n: kv.NumWorkers(), r: kv.Rank(), edge: cmp.Or(c.Edge, 1200), perHost: max(c.PerHost, 1)}
		if err := w.run(c); err != nil {
			return fmt.Errorf("%s: %w", c.Name, err)
		}
	}
	return nil
}

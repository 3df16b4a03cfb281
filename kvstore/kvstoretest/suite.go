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
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/optim"
)

// A Config says which job a Harness opens.
type Config struct {
	// Type is the stores', as kvstore.Create takes it.
	Type    string
	Workers int
	Servers int // 0: as the harness likes
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
	Edge      int // as in Harness
	PerHost   int // WorkersPerHost in Harness
	Run       func(w *Worker)
}

// Timeout bounds each wait of a store, so that a broken promise fails rather than hangs. It is
// long: machines that test are often busy with other things.
const Timeout = 3 * time.Minute

// Run runs the suite.
func Run(t *testing.T, h Harness) {
	if len(h.Types) == 0 {
		h.Types = []string{"dist_sync", "dist_async"}
	}
	for _, kind := range h.Types {
		for _, n := range h.Workers {
			t.Run(fmt.Sprintf("%s/workers=%d", kind, n), func(t *testing.T) { runType(t, h, kind, n) })
		}
	}
}

// runType runs the suite for one type of store and number of workers.
func runType(t *testing.T, h Harness, kind string, n int) {
	for _, group := range grouped(Cases(), kind, n) {
		if !h.Brief || group[0].Group != "" {
			runGroup(t, h, kind, n, group)
		}
	}
	if kind != "dist_async" && (!h.Brief || len(h.Servers) > 0) {
		runJobs(t, h, kind, n)
	}
}

// grouped returns the cases for a type of store and a number of workers, those of one job together.
func grouped(cases []Case, kind string, workers int) [][]Case {
	var groups [][]Case
	for _, c := range cases {
		if !c.isFor(kind) || len(c.Workers) > 0 && !slices.Contains(c.Workers, workers) {
			continue
		}
		i := -1
		if c.Group != "" {
			i = slices.IndexFunc(groups, func(g []Case) bool { return g[0].Group == c.Group })
		}
		if i < 0 {
			groups = append(groups, []Case{c})
		} else {
			groups[i] = append(groups[i], c)
		}
	}
	return groups
}

func (c *Case) isFor(kind string) bool {
	if len(c.Types) == 0 {
		return kind != "dist_async"
	}
	return slices.Contains(c.Types, kind)
}

// runGroup runs cases on one job, until one fails: then the job is in no state to go on with.
func runGroup(t *testing.T, h Harness, kind string, workers int, group []Case) {
	if len(group) == 1 {
		c := group[0]
		t.Run(c.Name, func(t *testing.T) {
			c.Edge, c.PerHost = h.Edge, h.WorkersPerHost
			Together(t, h.Open(t, Config{Type: kind, Workers: workers, Options: c.options()}), c)
		})
		return
	}
	t.Run(group[0].Group, func(t *testing.T) {
		stores := h.Open(t, Config{Type: kind, Workers: workers, Options: group[0].options()})
		for _, c := range group {
			c.Edge, c.PerHost = h.Edge, h.WorkersPerHost
			if !t.Run(c.Name, func(t *testing.T) { Together(t, stores, c) }) {
				return
			}
		}
	})
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
				cancel() // the others would only wait for this one
			}
		})
	}
	wg.Wait()
	var waited error
	for i, err := range errs {
		switch {
		case err == nil:
		case errors.Is(err, context.Canceled):
			waited = fmt.Errorf("rank %d: %w", i, err) // for a worker that had failed
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

// A Worker is what a case's program runs on. Its methods end the case when something is not as it
// should be.
type Worker struct {
	Store kvstore.Store
	Ctx   context.Context
	name  string
	n, r  int // workers and rank
	edge  int // of big arrays
	// perHost is how many workers add up before their sum is added to the others'.
	perHost int
}

type broken struct{ err error }

func (w *Worker) run(c Case) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case broken:
			err = r.err
		default:
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	if c.Optimizer != nil {
		w.ok(w.Store.SetOptimizer(w.Ctx, *c.Optimizer))
	}
	c.Run(w)
	w.barrier() // the next case may use other settings
	return nil
}

func (w *Worker) failf(format string, args ...any) { panic(broken{fmt.Errorf(format, args...)}) }

// ok ends the case on an error.
func (w *Worker) ok(err error) {
	if err != nil {
		panic(broken{err})
	}
}

// is ends the case unless err is want.
func (w *Worker) is(what string, err, want error) {
	if !errors.Is(err, want) {
		w.failf("%s: got error %v, want %v", what, err, want)
	}
}

// key returns the job's name for a case's key.
func (w *Worker) key(format string, args ...any) string {
	return w.name + "/" + fmt.Sprintf(format, args...)
}

func (w *Worker) init(key string, value []float32)    { w.ok(w.Store.Init(w.Ctx, key, value)) }
func (w *Worker) push(key string, grads ...[]float32) { w.ok(w.Store.Push(w.Ctx, key, grads...)) }
func (w *Worker) pull(key string, outs ...[]float32)  { w.ok(w.Store.Pull(w.Ctx, key, outs...)) }
func (w *Worker) pushPull(key string, grads, outs [][]float32) {
	w.ok(w.Store.PushPull(w.Ctx, key, grads, outs))
}
func (w *Worker) barrier()                       { w.ok(w.Store.Barrier(w.Ctx)) }
func (w *Worker) compress(c kvstore.Compression) { w.ok(w.Store.SetCompression(w.Ctx, c)) }
func (w *Worker) pushRows(key string, rows []int64, grad []float32) {
	w.ok(w.Store.PushRows(w.Ctx, key, rows, grad))
}
func (w *Worker) pullRows(key string, rows []int64, out []float32) {
	w.ok(w.Store.PullRows(w.Ctx, key, rows, out))
}

// pulled returns a key's value, of n numbers.
func (w *Worker) pulled(key string, n int) []float32 {
	out := make([]float32, n)
	w.pull(key, out)
	return out
}

// all ends the case unless every number of got is exactly want.
func (w *Worker) all(what string, got []float32, want float32) {
	if n := len(got); n > 1 && got[0] == want && bytes.Equal(memory(got[1:]), memory(got[:n-1])) {
		return // faster than the loop below
	}
	for i, g := range got {
		if g != want {
			w.failf("%s[%d]: got %v, want %v", what, i, g, want)
		}
	}
}

func memory(x []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), 4*len(x))
}

// same ends the case unless got is exactly want.
func (w *Worker) same(what string, got, want []float32) {
	if len(got) != len(want) {
		w.failf("%s: got %d values, want %d", what, len(got), len(want))
	}
	if bytes.Equal(memory(got), memory(want)) {
		return // faster than the loop below
	}
	for i, g := range got {
		if g != want[i] {
			w.failf("%s[%d]: got %v, want %v", what, i, g, want[i])
		}
	}
}

// near ends the case unless got is want to within tolerance.
func (w *Worker) near(what string, got, want []float32, tolerance float32) {
	if bytes.Equal(memory(got), memory(want)) {
		return // faster than the loop below
	}
	if i := far(got, want, tolerance); i >= 0 {
		w.failf("%s[%d]: got %v, want %v within %v", what, i, got[i], want[i], tolerance)
	}
}

// far returns the first number of got that is not want's to within tolerance, or -1.
//
//go:norace
func far(got, want []float32, tolerance float32) int {
	for i, g := range got {
		if d := g - want[i]; !(d <= tolerance && -d <= tolerance) {
			return i
		}
	}
	return -1
}

// fill returns n times v.
func fill(n int, v float32) []float32 {
	x := make([]float32, n)
	if n > 0 && v != 0 {
		x[0] = v
		for k := 1; k < n; k *= 2 {
			copy(x[k:], x[:k])
		}
	}
	return x
}

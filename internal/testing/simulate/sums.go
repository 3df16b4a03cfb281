package simulate

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/paragon-train/paragon/internal/testing/joining"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/optim"
)

// patience is how long a store's call waits for others: longer than any fault lasts.
const patience = 40 * time.Second

// join makes a worker's store, with the ledger around it.
func (j *job) join(ctx context.Context, n *node, rank int) (*recorder, error) {
	cfg := j.config(n, 0, rank)
	if cfg.Joining = rank >= j.plan.Workers; cfg.Joining {
		cfg.Rank = -1
	}
	opts := []kvstore.Option{kvstore.WithTimeout(patience), kvstore.WithLogger(cfg.Logger)}
	if j.plan.PerHost > 1 {
		opts = append(opts, kvstore.WithHostSums(kvstore.HostSumsOn))
	}
	kv, err := joining.Join(ctx, cfg, "dist_sync", opts...)
	if err != nil {
		return nil, err
	}
	r := newRecorder(kv, n.name, j.ledger)
	r.alter = j.alter
	return r, nil
}

// begun waits until all workers of the first membership have come so far, and begins the time of
// faults. Later ones do not wait.
func (j *job) begun(rank int) {
	if rank >= j.plan.Workers {
		return
	}
	j.ready.Done()
	j.ready.Wait()
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.begin.IsZero() {
		j.begin = time.Now()
	}
}

// absent says that a worker will not come so far.
func (j *job) absent(rank int) {
	if rank < j.plan.Workers {
		j.ready.Done()
	}
}

// counts notes that a worker is a member that counts.
func (j *job) counts(n *node) {
	j.mu.Lock()
	defer j.mu.Unlock()
	n.counted = true
}

// code is element i of a worker's gradient in a step: a number from 1 to 512 that no other worker
// and step has in the same place, but by chance.
func code(rank, step, i int) float32 {
	x := uint64(rank+1)*0x9e3779b97f4a7c15 ^ uint64(step+1)*0xbf58476d1ce4e5b9 ^ uint64(i+1)*0x94d049bb133111eb
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return float32(1 + (x^x>>31)%512)
}

// flagKey is the key by which workers agree on when to stop for a change of the members.
const flagKey = "paragon/flag"

// runSums is a worker that pushes codes to several keys, each on one server, and pulls their sums
// over workers and steps.
func (j *job) runSums(ctx context.Context, n *node, rank int) (err error) {
	p := &j.plan
	kv, err := j.join(ctx, n, rank)
	if err != nil {
		j.absent(rank)
		return err
	}
	defer func() {
		if errors.Is(err, kvstore.ErrRemoved) {
			// It may have been removed before it counted.
			err = nil
		}
		err = kvstore.Leave(kv, err)
	}()
	defer j.askLeave(ctx, n, kv)()
	w := &summing{plan: p, kv: kv, rank: rank}
	err = w.declare(ctx)
	if j.begun(rank); err != nil {
		return err
	}
	step := 0
	if kv.Joining() {
		if err := kv.Ready(ctx); err != nil {
			return err
		}
		step = int(kv.Division().Steps)
	}
	j.counts(n)
	pace := rand.New(rand.NewPCG(p.Seed, uint64(rank)))
	for ; step < p.Steps; step++ {
		if err := sleep(ctx, time.Duration(pace.Int64N(int64(compute)))); err != nil {
			return err
		}
		raised, err := w.step(ctx, step)
		if err != nil {
			return err
		}
		if raised {
			if err := j.arrive(ctx, kv, step+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// A summing is what runSums pushes and pulls.
type summing struct {
	plan *Plan
	kv   *recorder
	rank int
}

func sumKey(k int) string { return fmt.Sprint("key", k) }
func sumLength(k int) int { return 5 + 3*k }

// declare initialises the keys. A worker that joins finds them there, and waits for no one.
func (w *summing) declare(ctx context.Context) error {
	if err := w.kv.SetOptimizer(ctx, optim.Config{Name: "test", LearningRate: 1}); err != nil {
		return err
	}
	for k := range w.plan.Keys {
		if err := w.kv.Init(ctx, sumKey(k), make([]float32, sumLength(k))); err != nil {
			return err
		}
	}
	if w.plan.Elastic {
		if err := w.kv.InitAverage(ctx, flagKey, []float32{0}); err != nil {
			return err
		}
	}
	if w.kv.Joining() {
		return nil
	}
	return w.kv.Barrier(ctx)
}

// step exchanges all keys at once. raised says that the members are to change after this step: some
// worker has seen a pending change.
func (w *summing) step(ctx context.Context, step int) (raised bool, err error) {
	var group errgroup.Group
	for k := range w.plan.Keys {
		grad, out := make([]float32, sumLength(k)), make([]float32, sumLength(k))
		for i := range grad {
			grad[i] = code(w.rank, step, 100*k+i)
		}
		group.Go(func() error {
			if !w.plan.Split {
				return w.kv.PushPull(ctx, sumKey(k), [][]float32{grad}, [][]float32{out})
			}
			if err := w.kv.Push(ctx, sumKey(k), grad); err != nil {
				return err
			}
			return w.kv.Pull(ctx, sumKey(k), out)
		})
	}
	flag := []float32{0}
	if w.plan.Elastic {
		if w.kv.Pending() != 0 {
			flag[0] = 1
		}
		group.Go(func() error { return w.kv.PushPull(ctx, flagKey, [][]float32{flag}, [][]float32{flag}) })
	}
	err = group.Wait()
	return flag[0] != 0, err
}

// askLeave asks to leave for a worker when it gets SIGTERM. If it may not leave it goes on. The
// function that it returns stops this.
func (j *job) askLeave(ctx context.Context, n *node, kv *recorder) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-n.told:
			j.say(n.name, "asked to leave: %v", kv.AskLeave(ctx, "it was told to end"))
		case <-ctx.Done():
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// arrive takes part in a change that some worker knows of.
func (j *job) arrive(ctx context.Context, kv *recorder, steps int) error {
	// Others may have heard of the change before this worker.
	change, err := kv.AwaitPending(ctx)
	if err != nil {
		return err
	}
	if err := kv.Arrive(ctx, kvstore.Arrival{Change: change, Steps: uint64(steps)}); err != nil {
		return err
	}
	if got := kv.Division().Steps; got != uint64(steps) {
		return fmt.Errorf("simulation: after step %d the division says %d steps are done", steps, got)
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

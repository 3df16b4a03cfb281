package simulate

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/optim"
)

// patience is how long a store's call waits for others: longer than any fault lasts.
const patience = 40 * time.Second

// join makes a worker's store, with the ledger around it.
func (j *job) join(ctx context.Context, n *node, rank int) (*recorder, error) {
	cfg := j.config(n, 0, rank)
	kv, err := kvstore.Create(ctx, "dist_sync", kvstore.WithConfig(cfg), kvstore.WithTimeout(patience), kvstore.WithLogger(cfg.Logger))
	if err != nil {
		return nil, err
	}
	r := newRecorder(kv, n.name, j.ledger)
	r.alter = j.alter
	return r, nil
}

// begun waits until all workers of the first membership have come so far, and begins the time of faults.
func (j *job) begun() {
	j.ready.Done()
	j.ready.Wait()
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.begin.IsZero() {
		j.begin = time.Now()
	}
}

// code is element i of a worker's gradient in a step: a number from 1 to 512 that no other worker and step has in the same place, but by chance.
func code(rank, step, i int) float32 {
	x := uint64(rank+1)*0x9e3779b97f4a7c15 ^ uint64(step+1)*0xbf58476d1ce4e5b9 ^ uint64(i+1)*0x94d049bb133111eb
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return float32(1 + (x^x>>31)%512)
}

// runSums is a worker that pushes codes to several keys, each on one server, and pulls their sums over workers and steps.
func (j *job) runSums(ctx context.Context, n *node, rank int) (err error) {
	p := &j.plan
	kv, err := j.join(ctx, n, rank)
	if err != nil {
		j.ready.Done() // the others need not wait
		return err
	}
	defer func() { err = kvstore.Leave(kv, err) }()
	err = kv.SetOptimizer(ctx, optim.Config{Name: "test", LearningRate: 1})
	name := func(k int) string { return fmt.Sprint("key", k) }
	length := func(k int) int { return 5 + 3*k }
	for k := 0; k < p.Keys && err == nil; k++ {
		err = kv.Init(ctx, name(k), make([]float32, length(k)))
	}
	if err == nil {
		err = kv.Barrier(ctx)
	}
	if j.begun(); err != nil {
		return err
	}
	pace := rand.New(rand.NewPCG(p.Seed, uint64(rank)))
	for step := range p.Steps {
		if err := sleep(ctx, time.Duration(pace.Int64N(int64(compute)))); err != nil {
			return err
		}
		var group errgroup.Group
		for k := range p.Keys {
			grad, out := make([]float32, length(k)), make([]float32, length(k))
			for i := range grad {
				grad[i] = code(rank, step, 100*k+i)
			}
			group.Go(func() error {
				if !p.Split {
					return kv.PushPull(ctx, name(k), [][]float32{grad}, [][]float32{out})
				}
				if err := kv.Push(ctx, name(k), grad); err != nil {
					return err
				}
				return kv.Pull(ctx, name(k), out)
			})
		}
		if err := group.Wait(); err != nil {
			return err
		}
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

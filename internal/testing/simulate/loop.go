package simulate

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/optim"
)

// runLoop is a worker that trains with the store alone: it counts in several keys, each on one
// server, which examples each step used.
func (j *job) runLoop(ctx context.Context, n *node, rank int) (err error) {
	p := &j.plan
	kv, err := j.join(ctx, n, rank)
	if err != nil {
		j.absent(rank)
		return err
	}
	defer func() {
		if errors.Is(err, kvstore.ErrRemoved) || errors.Is(err, kvstore.ErrFinished) {
			// The others go on without this worker, or are done.
			err = errors.Join(kv.Close())
			return
		}
		err = kvstore.Leave(kv, err)
	}()
	defer j.askLeave(ctx, n, kv)()
	err = kv.SetOptimizer(ctx, optim.Config{Name: "test", LearningRate: 1})
	for k := 0; k < p.Keys && err == nil; k++ {
		err = kv.Init(ctx, fmt.Sprint("count", k), make([]float32, p.Examples))
	}
	var examples *kvstore.ElasticSampler
	joins := kv.Joining()
	if err == nil && !joins {
		examples, err = kvstore.NewElasticSampler(ctx, kv, j.samplerConfig())
	}
	if j.begun(rank); err == nil && joins {
		examples, err = kvstore.NewElasticSampler(ctx, kv, j.samplerConfig())
	}
	if err != nil {
		return err
	}
	j.counts(n)
	pace := rand.New(rand.NewPCG(p.Seed, uint64(rank)))
	for range examples.Epochs() {
		for batch := range examples.Batches(ctx) {
			if err := sleep(ctx, time.Duration(pace.Int64N(int64(compute)))); err != nil {
				return err
			}
			if err := p.pushCounts(ctx, kv, examples.Pusher(), batch); err != nil {
				return err
			}
		}
	}
	return examples.Err()
}

// pushCounts adds one to each example of the batch in all keys, and pulls the counts.
func (p *Plan) pushCounts(ctx context.Context, kv *recorder, pusher kvstore.Pusher, batch []int) error {
	grad := make([]float32, p.Examples)
	for _, i := range batch {
		grad[i]++
	}
	var group errgroup.Group
	for k := range p.Keys {
		key, out := fmt.Sprint("count", k), make([]float32, p.Examples)
		group.Go(func() error {
			if !p.Split {
				return pusher.PushPull(ctx, key, [][]float32{grad}, [][]float32{out})
			}
			if err := pusher.Push(ctx, key, grad); err != nil {
				return err
			}
			return kv.Pull(ctx, key, out)
		})
	}
	return group.Wait()
}

func (j *job) samplerConfig() kvstore.SamplerConfig {
	p := &j.plan
	return kvstore.SamplerConfig{Examples: p.Examples, Batch: p.Batch, Epochs: p.Epochs, Seed: p.Seed, Order: p.order()}
}
